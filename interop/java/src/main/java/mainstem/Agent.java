package mainstem;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Agent does with Kafka's Java client what a test in Go asks for. Each line of standard input is
 * a request, {"id":1,"on":2,"op":"send","args":{...}}, and each line of standard output the
 * answer to one, {"id":1,"result":...} or {"id":1,"error":"..."}. A request is for a client that
 * an earlier one opened under the number "on". Requests for one client are served in order by
 * one thread, those for different clients at the same time. The program ends with its input.
 */
public final class Agent {
    static final ObjectMapper JSON = new ObjectMapper().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

    /** Client is what requests are for. */
    interface Client {
        /** Does one thing. What it returns is written as JSON. */
        Object call(String op, JsonNode args) throws Exception;

        /** Ends calls that wait, from another thread, before the client is closed. */
        default void interrupt() {}
    }

    private record Served(Client client, ExecutorService thread) {}

    private final Map<Integer, Served> open = new ConcurrentHashMap<>();
    private final PrintStream answers;

    private Agent(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] args) throws Exception {
        Agent agent = new Agent(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        System.setOut(System.err); // what libraries print is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            agent.accept(JSON.readTree(line));
        }
        Runtime.getRuntime().halt(0); // clients that were left open would try again and again
    }

    private void accept(JsonNode request) {
        int on = request.get("on").asInt();
        String op = request.get("op").asText();
        JsonNode args = request.path("args");
        if (op.equals("open")) {
            ExecutorService thread = Executors.newSingleThreadExecutor();
            thread.execute(() -> answer(request, () -> {
                open.put(on, new Served(create(args), thread));
                return null;
            }));
            return;
        }
        Served served = open.get(on);
        if (served == null) {
            answer(request, () -> {
                throw new IllegalArgumentException("no client has the number " + on);
            });
            return;
        }
        if (op.equals("close")) {
            open.remove(on);
            new Thread(served.client::interrupt).start();
        }
        served.thread.execute(() -> answer(request, () -> served.client.call(op, args)));
        if (op.equals("close")) {
            served.thread.shutdown();
        }
    }

    private static Client create(JsonNode args) throws Exception {
        return switch (args.get("kind").asText()) {
            case "producer" -> new Producing(args);
            case "consumer" -> new Consuming(args);
            case "admin" -> new Administration(args);
            case "tools" -> new Tools();
            default -> throw new IllegalArgumentException("no kind of client: " + args);
        };
    }

    private interface Work {
        Object run() throws Exception;
    }

    private void answer(JsonNode request, Work work) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("id", request.get("id"));
        try {
            out.put("result", work.run());
        } catch (Throwable e) {
            Throwable cause = e instanceof java.util.concurrent.ExecutionException && e.getCause() != null ? e.getCause() : e;
            out.put("error", cause.toString());
            if (cause instanceof RuntimeException || cause instanceof Error) {
                cause.printStackTrace();
            }
        }
        try {
            String line = JSON.writeValueAsString(out);
            synchronized (answers) {
                answers.println(line);
            }
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    /** Returns the configuration of a client. */
    static Map<String, Object> config(JsonNode args) {
        return JSON.convertValue(args.get("config"), new com.fasterxml.jackson.core.type.TypeReference<>() {});
    }

    /** Returns an object of names and values, in this order. */
    static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            m.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return m;
    }
}
