package catena.jetty;

import catena.Node;
import catena.web.Exchange;
import catena.web.Lying;
import catena.web.Site;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.eclipse.jetty.http.HttpException;
import org.eclipse.jetty.http.MetaData;
import org.eclipse.jetty.io.ByteArrayEndPoint;
import org.eclipse.jetty.server.AbstractConnector;
import org.eclipse.jetty.server.ConnectionMetaData;
import org.eclipse.jetty.server.HttpChannel;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;

/** By this Jetty serves behind a service ID instead of at a port: requests come as messages, and responses say where their bodies are. Any handler works; {@link CatenaFiles} copies nothing. */
public final class CatenaConnector extends AbstractConnector {
    /** Clients that are remembered. */
    private static final int PEERS_MAX = 1024;

    private final Node node;
    private final String service;
    private final SegmentPool[] pools;
    private final HttpConnectionFactory http = new HttpConnectionFactory();
    private final Map<Long, ConnectionMetaData> peers = new ConcurrentHashMap<>();
    private Site site;

    /**
     * Serves behind the service ID {@code service} of a node; {@code files}: the handlers whose content is sent from where it lies. Bodies whose clients are silent are let go after the
     * idle timeout.
     */
    public CatenaConnector(Server server, Node node, String service, CatenaFiles... files) {
        super(server, null, null, null, 0, new HttpConnectionFactory());
        this.node = node;
        this.service = service;
        this.pools = Arrays.stream(files).flatMap(one -> Stream.of(one.pools())).toArray(SegmentPool[]::new);
    }

    @Override
    protected void doStart() throws Exception {
        super.doStart();
        site = new Site(node, service, getExecutor(), this::find, this::handle, Duration.ofMillis(getIdleTimeout()));
    }

    @Override
    protected void doStop() throws Exception {
        site.close();
        super.doStop();
    }

    private Lying find(ByteBuffer content) {
        return Arrays.stream(pools).map(pool -> pool.find(content)).filter(Objects::nonNull).findFirst().orElse(null);
    }

    private void handle(Exchange exchange) {
        MetaData.Request request;
        try {
            request = Head.parsed(exchange.head(), service, exchange.body().remaining());
        } catch (RuntimeException why) {
            HttpException said = why instanceof HttpException bad ? bad : new HttpException.RuntimeException(400, why.getMessage());
            exchange.told(said.getCode(), said.getReason());
            exchange.end();
            return;
        }
        if (peers.size() >= PEERS_MAX) {
            peers.clear();
        }
        HttpChannel channel = new HttpChannel.DefaultFactory().newHttpChannel(peers.computeIfAbsent(exchange.client(), this::peer));
        channel.setHttpStream(new CatenaStream(this, exchange, channel));
        channel.initialize();
        channel.onRequest(request).run();
    }

    /** Jetty's own connection, of which nothing but what it knows of a client is used: no byte goes through it. */
    private ConnectionMetaData peer(long client) {
        return (ConnectionMetaData) http.newConnection(this, new Peer(client));
    }

    @Override
    protected void accept(int acceptor) {
        throw new UnsupportedOperationException("nothing is accepted: messages come");
    }

    @Override
    public Object getTransport() {
        return node;
    }

    /** Where a client is, for whoever asks: it has a number. */
    private static final class Peer extends ByteArrayEndPoint {
        private final SocketAddress address;

        Peer(long client) {
            address = InetSocketAddress.createUnresolved("catena-" + Long.toHexString(client), 0);
        }

        @Override
        public SocketAddress getRemoteSocketAddress() {
            return address;
        }
    }
}
