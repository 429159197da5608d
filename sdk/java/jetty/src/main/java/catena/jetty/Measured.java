package catena.jetty;

import catena.Node;
import java.nio.file.Path;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.http.content.ResourceHttpContentFactory;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.ContextHandler;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.resource.ResourceFactory;

/** One folder by sockets, as Jetty does it, and by Catena: {@code Measured FOLDER on|off}. It says where, and serves until its input is closed. */
public final class Measured {
    private Measured() {}

    /** Serves. */
    public static void main(String[] arguments) throws Exception {
        // Jetty's threads would keep the process alive, and whoever started it would wait.
        Thread.currentThread().setUncaughtExceptionHandler((main, why) -> {
            why.printStackTrace();
            System.exit(1);
        });
        Path folder = Path.of(arguments[0]).toRealPath();
        boolean cached = arguments[1].equals("on");
        Node node = Node.start("jetty", "127.0.0.1:0", null);
        CatenaFiles files = new CatenaFiles(node, cached);
        Server ours = new Server();
        ours.addConnector(new CatenaConnector(ours, node, "web", files));
        serve(ours, files, folder);
        Server vanilla = new Server();
        ServerConnector sockets = new ServerConnector(vanilla);
        sockets.setHost("127.0.0.1");
        vanilla.addConnector(sockets);
        serve(vanilla, cached ? new ResourceHandler() : new Uncached(), folder);
        System.out.println("sockets 127.0.0.1:" + sockets.getLocalPort());
        System.out.println("catena " + node.address());
        while (System.in.read() >= 0) {
            // What is said is nothing; that it ends is all.
        }
        ours.stop();
        vanilla.stop();
        node.close();
        System.exit(0);
    }

    private static void serve(Server server, ResourceHandler files, Path folder) throws Exception {
        files.setBaseResource(ResourceFactory.of(files).newResource(folder));
        files.setDirAllowed(false);
        files.setEtags(true);
        // It keeps who follows a symbolic link within the folder.
        server.setHandler(new ContextHandler(files, "/"));
        server.start();
    }

    /** Jetty's handler of files without its cache. */
    private static final class Uncached extends ResourceHandler {
        @Override
        protected HttpContent.Factory newHttpContentFactory(ByteBufferPool.Sized buffers) {
            return new ResourceHttpContentFactory(getBaseResource(), getMimeTypes(), buffers);
        }
    }
}
