package mainstem;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Tools runs Kafka's command line tools in this JVM, since starting one takes longer than what
 * they do. A tool runs alone: standard output and the exit procedure are those of the process.
 */
final class Tools implements Agent.Client {
    /** Exited ends a tool where it would end the JVM. */
    private static final class Exited extends Error {
        final int status;

        Exited(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
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
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        InputStream stdin = System.in;
        int[] status = {0};
        Exit.Procedure exit = (code, message) -> {
            throw new Exited(code);
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        try (PrintStream to = new PrintStream(out, true, StandardCharsets.UTF_8)) {
            System.setOut(to);
            System.setErr(to);
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exited ended) {
                status[0] = ended.status;
            } else {
                throw e;
            }
        } finally {
            System.setOut(stdout);
            System.setErr(stderr);
            System.setIn(stdin);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
        }
        return Agent.object("status", status[0], "output", out.toString(StandardCharsets.UTF_8));
    }
}
