package catena.web;

import catena.CatenaException;
import catena.Mailbox;
import catena.Message;
import catena.Party;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;

/** A web server behind a service ID: takes requests from a mailbox, and has them handled. Its clients are those of {@code catena-web}, in Rust, and {@link Fetcher}. */
public final class Site implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Site.class.getName());
    /** Requests under way, and bodies that are pulled: in all, and of one client. */
    private static final int UNDER_WAY_MAX = 128;
    private static final int OF_ONE_MAX = 64;
    private static final int REQUEST_BYTES_MAX = 64 << 20;
    private static final Duration SWEEP = Duration.ofSeconds(1);
    private static final Duration PATIENCE = Duration.ofSeconds(2);
    /** Threads that wait for messages beside the one that must. */
    private static final int SPARE = 2;

    final Function<ByteBuffer, Lying> finding;
    private final long idleNanos;
    private final Mailbox mailbox;
    private final Executor executor;
    private final Consumer<Exchange> handler;
    private final SecureRandom random = new SecureRandom();
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicInteger underWay = new AtomicInteger();
    private final Map<Long, Integer> requests = new ConcurrentHashMap<>();
    private final Map<Long, Pull> pulls = new ConcurrentHashMap<>();
    private final Map<Lying, Long> lent = new ConcurrentHashMap<>();
    private volatile long sweptNanos = System.nanoTime();
    private volatile boolean closed;

    /**
     * Serves from now on.
     *
     * @param executor whose threads take messages and handle requests; as many as requests are under way, and one
     * @param finding the segment in which content lies, or null
     * @param handler answers a request, now or later, and ends it
     * @param idle how long nobody may ask for the next part of a body, and how long what was told of is held; more than nothing
     */
    public Site(Party party, String service, Executor executor, Function<ByteBuffer, Lying> finding, Consumer<Exchange> handler, Duration idle) {
        if (idle.isZero() || idle.isNegative()) {
            throw new IllegalArgumentException("no body can be held for " + idle);
        }
        this.idleNanos = idle.toNanos();
        this.executor = executor;
        this.finding = finding;
        this.handler = handler;
        this.mailbox = party.mailbox(service);
        executor.execute(this::serve);
    }

    /** Takes no more requests, and lets go of bodies that are being pulled. */
    @Override
    public void close() {
        closed = true;
        mailbox.close();
        pulls.values().forEach(pull -> pull.leave(false));
        pulls.clear();
        lent.keySet().forEach(lying -> lying.done(false));
        lent.clear();
    }

    /** Takes messages and handles them in one thread, without handing over: as soon as nobody waits for the next one, another thread is woken to. */
    private void serve() {
        while (!closed) {
            if (waiting.incrementAndGet() > 1 + SPARE) {
                // All that waited may have got a message since.
                if (waiting.decrementAndGet() > 0) {
                    return;
                }
                continue;
            }
            Message message = null;
            try {
                message = mailbox.receive(SWEEP);
            } catch (CatenaException why) {
                LOG.log(System.Logger.Level.DEBUG, "no messages any more", why);
                return;
            } finally {
                if (waiting.decrementAndGet() == 0 && message != null) {
                    executor.execute(this::serve);
                }
            }
            if (message != null) {
                taken(message);
            }
            sweep();
        }
    }

    private void taken(Message message) {
        try {
            List<byte[]> items = message.items();
            String kind = items.isEmpty() ? "" : new String(items.get(0), StandardCharsets.ISO_8859_1);
            long number = items.size() < 2 ? 0 : Frames.number(items.get(1));
            Pull pull = pulls.get(number);
            // Numbers are drawn, and still nobody else's body is anybody's.
            boolean own = pull != null && pull.client == message.node();
            switch (kind) {
                case "F", "f" -> fetch(message, items, kind.equals("F"));
                case "N", "n" -> {
                    if (own) {
                        pull.ask(message, kind.equals("N"));
                        pulls.computeIfPresent(number, (key, asked) -> asked.isOver() ? null : asked);
                    } else {
                        answer(message, Frames.failed("there is no such body any more"));
                    }
                }
                case "L" -> {
                    message.close();
                    if (own && pulls.remove(number, pull)) {
                        pull.leave(true);
                    }
                }
                default -> told(message, 501, "this is a question that the server does not know");
            }
        } catch (RuntimeException why) {
            LOG.log(System.Logger.Level.WARNING, "a message could not be served", why);
            message.close();
        }
    }

    private void fetch(Message message, List<byte[]> items, boolean near) {
        int ofOne = requests.merge(message.node(), 1, Integer::sum);
        ByteBuffer body = null;
        if (underWay.incrementAndGet() > UNDER_WAY_MAX || ofOne > OF_ONE_MAX) {
            told(message, 503, "too many requests are under way");
        } else {
            try {
                body = body(message, items);
            } catch (CatenaException why) {
                told(message, 400, "its body cannot be read: " + why.getMessage());
            }
        }
        if (body == null) {
            ended(message.node());
            return;
        }
        Exchange exchange = new Exchange(this, message, body, near);
        try {
            handler.accept(exchange);
        } catch (RuntimeException why) {
            exchange.end();
            throw why;
        }
    }

    /** A request's body; null: it is too large, and it was answered so. */
    private static ByteBuffer body(Message message, List<byte[]> items) {
        if (items.size() > 2 || message.buffers() == 0) {
            return ByteBuffer.wrap(items.size() > 2 ? items.get(2) : new byte[0]);
        }
        if (message.bufferBytes(0) > REQUEST_BYTES_MAX) {
            told(message, 413, "its body has more than " + REQUEST_BYTES_MAX + " bytes");
            return null;
        }
        ByteBuffer body = ByteBuffer.allocate((int) message.bufferBytes(0));
        message.read(0, 0, body);
        return body.flip();
    }

    void ended(long client) {
        underWay.decrementAndGet();
        requests.computeIfPresent(client, (id, count) -> count == 1 ? null : count - 1);
    }

    static void told(Message message, int status, String why) {
        byte[] body = (why + "\n").getBytes(StandardCharsets.UTF_8);
        String head = "HTTP/1.1 " + status + " \r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: " + body.length
                + (status == 503 ? "\r\nretry-after: 1" : "") + "\r\n\r\n";
        answer(message, Frames.begun(Frames.HERE, frame -> frame.put(head.getBytes(StandardCharsets.ISO_8859_1))).put(body).flip());
    }

    static void answer(Message message, ByteBuffer frame) {
        try (message) {
            message.answer(frame);
        } catch (CatenaException why) {
            LOG.log(System.Logger.Level.DEBUG, "nobody takes a response", why);
        }
    }

    /** Holds what somebody is told of, for as long as a body is held that is pulled. */
    boolean lend(Lying lying) {
        return lent.compute(lying, (same, since) -> since != null || same.take() ? Long.valueOf(System.nanoTime()) : null) != null;
    }

    /** Keeps a body for who asked for it; null: there are too many. */
    Pull keep(Exchange exchange) {
        long ofOne = pulls.values().stream().filter(other -> other.client == exchange.client()).count();
        if (pulls.size() >= UNDER_WAY_MAX || ofOne >= OF_ONE_MAX) {
            return null;
        }
        Pull pull = new Pull(random.nextLong() | 1, exchange, finding);
        pulls.put(pull.number, pull);
        return pull;
    }

    private void sweep() {
        long now = System.nanoTime();
        if (now - sweptNanos < SWEEP.toNanos()) {
            return;
        }
        sweptNanos = now;
        pulls.forEach((number, pull) -> {
            pull.patience(PATIENCE.toNanos());
            if ((pull.isOver() || pull.idleNanos() > idleNanos) && pulls.remove(number, pull)) {
                pull.leave(false);
            }
        });
        lent.forEach((lying, since) -> {
            if (now - since > idleNanos && lent.remove(lying, since)) {
                lying.done(false);
            }
        });
    }
}
