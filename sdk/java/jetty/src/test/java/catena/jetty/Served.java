package catena.jetty;

import catena.Node;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ContextHandler;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.resource.ResourceFactory;

/** What the tests of the connector fetch from: a folder, kept as {@code kept} and read each time as {@code read}; and an application, {@code app}, {@code hasty} with little patience, and {@code patient} with much. */
public final class Served {
    private static final long HASTY_MS = 100;
    private static final long PATIENT_MS = 600_000;

    private Served() {}

    /** Serves until the input ends: {@code Served FOLDER}. */
    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().setUncaughtExceptionHandler((main, why) -> {
            why.printStackTrace();
            System.exit(1);
        });
        Node node = Node.start("jetty", "127.0.0.1:0", null);
        for (boolean cached : new boolean[] {true, false}) {
            CatenaFiles files = new CatenaFiles(node, cached);
            files.setBaseResource(ResourceFactory.of(files).newResource(Path.of(arguments[0]).toRealPath()));
            files.setDirAllowed(false);
            files.setEtags(true);
            start(node, cached ? "kept" : "read", 0, files, files);
        }
        start(node, "app", 0, new Application());
        start(node, "hasty", HASTY_MS, new Application());
        start(node, "patient", PATIENT_MS, new Application());
        System.out.println(node.address());
        while (System.in.read() >= 0) {
            // That it ends is all that is waited for.
        }
        System.exit(0);
    }

    private static void start(Node node, String service, long idleMs, Handler handler, CatenaFiles... files) throws Exception {
        Server server = new Server();
        CatenaConnector connector = new CatenaConnector(server, node, service, files);
        if (idleMs > 0) {
            connector.setIdleTimeout(idleMs);
        }
        server.addConnector(connector);
        // It keeps who follows a symbolic link within its folder.
        server.setHandler(new ContextHandler(handler, "/"));
        server.start();
    }

    private static final class Application extends Handler.Abstract {
        private static final int CHUNK = 100_000;
        private static final int WIDE = 60_000;

        @Override
        public boolean handle(Request request, Response response, Callback callback) throws Exception {
            switch (Request.getPathInContext(request)) {
                case "/echo" -> Content.copy(request, response, callback);
                case "/throws" -> throw new IllegalStateException("on purpose");
                case "/many" -> write(response, 30, true, callback);
                case "/endless" -> write(response, Integer.MAX_VALUE, true, callback);
                case "/fails" -> write(response, 3, false, callback);
                case "/fails-early" -> {
                    Callback then = Callback.from(() -> callback.failed(new IllegalStateException("on purpose")), callback::failed);
                    response.write(false, ByteBuffer.allocate(1), then);
                }
                case "/wide" -> {
                    response.getHeaders().put("wide", "x".repeat(WIDE));
                    Content.Sink.write(response, true, "no head is so long", callback);
                }
                case "/who" -> Content.Sink.write(response, true, Request.getRemoteAddr(request), callback);
                default -> {
                    return false;
                }
            }
            return true;
        }

        /** Chunks, each as large and with its number's lowest byte in it, one when the one before was taken. */
        private static void write(Response response, int left, boolean ends, Callback callback) {
            if (left == 0 && !ends) {
                callback.failed(new IllegalStateException("on purpose"));
                return;
            }
            ByteBuffer chunk = ByteBuffer.allocate(left == 0 ? 0 : CHUNK);
            java.util.Arrays.fill(chunk.array(), (byte) left);
            Callback next = Callback.from(() -> write(response, left - 1, ends, callback), callback::failed);
            response.write(left == 0, chunk, left == 0 ? callback : next);
        }
    }
}
