package catena.jetty;

import catena.web.Exchange;
import catena.web.Pull;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;
import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.http.HttpGenerator;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.http.HttpStatus;
import org.eclipse.jetty.http.MetaData;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.HttpChannel;
import org.eclipse.jetty.server.HttpStream;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;

/** One request and its response, between Jetty and Catena. */
final class CatenaStream implements HttpStream {
    private final CatenaConnector connector;
    private final Exchange exchange;
    private final HttpChannel channel;
    private Content.Chunk content;
    private volatile Pull pull;

    CatenaStream(CatenaConnector connector, Exchange exchange, HttpChannel channel) {
        this.connector = connector;
        this.exchange = exchange;
        this.channel = channel;
        this.content = exchange.body().hasRemaining() ? Content.Chunk.from(exchange.body(), true) : Content.Chunk.EOF;
    }

    @Override
    public String getId() {
        return Integer.toHexString(System.identityHashCode(this));
    }

    @Override
    public Content.Chunk read() {
        Content.Chunk chunk = content;
        content = Content.Chunk.next(chunk);
        return chunk;
    }

    @Override
    public void demand() {
        // All of a request's body is here before the request is handled.
        Runnable task = channel.onContentAvailable();
        if (task != null) {
            connector.getExecutor().execute(task);
        }
    }

    @Override
    public void prepareResponse(HttpFields.Mutable headers) {}

    @Override
    public void send(MetaData.Request request, MetaData.Response response, boolean last, ByteBuffer written, Callback callback) {
        ByteBuffer bytes = written == null ? BufferUtil.EMPTY_BUFFER : written;
        boolean headOnly = HttpMethod.HEAD.is(request.getMethod());
        Pull pulled = pull;
        if (response != null && !HttpStatus.isInformational(response.getStatus())) {
            commit(headOnly, response, last, bytes, callback);
        } else if (pulled != null) {
            pulled.write(bytes, last, callback::succeeded, callback::failed);
        } else {
            callback.succeeded();
        }
    }

    /** Decides where the body is to be found. Where the head is too long it throws, or fails the callback, and nothing is committed then. */
    private void commit(boolean headOnly, MetaData.Response response, boolean last, ByteBuffer bytes, Callback callback) {
        Consumer<ByteBuffer> head = head(response, last && !headOnly ? bytes.remaining() : -1);
        boolean small = headOnly || (last && exchange.isShort(bytes.remaining()));
        if (!small && last && exchange.lies(head, bytes)) {
            callback.succeeded();
        } else if (small || (last && Exchange.isSmall(bytes.remaining()))) {
            exchange.here(head, headOnly ? BufferUtil.EMPTY_BUFFER : bytes);
            callback.succeeded();
        } else {
            Pull begun = exchange.pulled();
            pull = begun;
            if (begun == null) {
                callback.failed(new IllegalStateException("too many bodies are under way"));
            } else {
                begun.begin(head, bytes, last, callback::succeeded, callback::failed);
            }
        }
    }

    private static Consumer<ByteBuffer> head(MetaData.Response response, long length) {
        int status = response.getStatus();
        String line = "HTTP/1.1 " + status + " " + HttpStatus.getMessage(status) + "\r\n";
        boolean counted = length >= 0 && status != HttpStatus.NO_CONTENT_204 && status != HttpStatus.NOT_MODIFIED_304
                && !response.getHttpFields().contains(HttpHeader.CONTENT_LENGTH);
        return out -> {
            out.put(line.getBytes(StandardCharsets.ISO_8859_1));
            response.getHttpFields().forEach(field -> HttpGenerator.putTo(field, out));
            out.put((counted ? "Content-Length: " + length + "\r\n\r\n" : "\r\n").getBytes(StandardCharsets.ISO_8859_1));
        };
    }

    @Override
    public Runnable cancelSend(Throwable cause, Callback callback) {
        return () -> {
            endBody();
            callback.failed(cause);
        };
    }

    @Override
    public long getIdleTimeout() {
        return connector.getIdleTimeout();
    }

    @Override
    public void setIdleTimeout(long idleTimeoutMs) {}

    @Override
    public boolean isCommitted() {
        return exchange.isAnswered();
    }

    @Override
    public Throwable consumeAvailable() {
        content = Content.Chunk.EOF;
        return null;
    }

    @Override
    public void succeeded() {
        exchange.end();
        endBody();
        channel.recycle();
    }

    @Override
    public void failed(Throwable why) {
        exchange.told(HttpStatus.INTERNAL_SERVER_ERROR_500, "the service failed");
        exchange.end();
        endBody();
    }

    /** Nothing more is written: who still waits for a part of the body is told that it failed. Of a body that is over, nothing is left to fail. */
    private void endBody() {
        Pull pulled = pull;
        if (pulled != null) {
            pulled.fail();
        }
    }
}
