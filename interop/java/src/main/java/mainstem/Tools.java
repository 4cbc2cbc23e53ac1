package mainstem;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Tools runs Kafka's command line tools in this JVM, since starting one takes longer than what
 * they do. A tool runs alone: standard output and the exit procedure are those of the process.
 */
final class Tools implements Agent.Client {
    /** Exited unwinds a tool where it would end the JVM. */
    private static final class Exited extends Error {}

    /** Ending is how a tool ended. Some catch and print everything, Exited too, and exit again: only the first exit counts. */
    private static final class Ending extends OutputStream implements Exit.Procedure {
        final ByteArrayOutputStream output = new ByteArrayOutputStream();
        int status = -1; // -1 while it runs

        @Override
        public synchronized void execute(int code, String message) {
            if (status < 0) {
                status = code;
            }
            throw new Exited();
        }

        @Override
        public synchronized void write(int b) {
            if (status < 0) {
                output.write(b);
            }
        }
    }

    @Override
    public Object call(String op, JsonNode args) throws Exception {
        return switch (op) {
            case "run" -> run(args.get("class").asText(), Agent.JSON.treeToValue(args.get("args"), String[].class), args.path("input").asText());
            case "close" -> null;
            default -> throw new IllegalArgumentException("the tools cannot " + op);
        };
    }

    private static synchronized Object run(String name, String[] args, String input) throws Exception {
        Ending ending = new Ending();
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        InputStream stdin = System.in;
        Exit.setExitProcedure(ending);
        Exit.setHaltProcedure(ending);
        try (PrintStream to = new PrintStream(ending, true, StandardCharsets.UTF_8)) {
            System.setOut(to);
            System.setErr(to);
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                throw e;
            }
        } finally {
            System.setOut(stdout);
            System.setErr(stderr);
            System.setIn(stdin);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
        }
        return Agent.object("status", Math.max(0, ending.status), "output", ending.output.toString(StandardCharsets.UTF_8));
    }
}
