package catena.web;

import catena.Message;
import java.io.EOFException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/** A body that its client asks for part by part. What it does not ask for is not taken: who reads nothing costs one part, for a time. */
public final class Pull {
    private static final Runnable NOTHING = () -> {};
    final long number;
    final long client;
    private final Exchange exchange;
    private final Function<ByteBuffer, Lying> finding;
    /** What was written, and is not taken. */
    private ByteBuffer written;
    private boolean last;
    private Written outcome;
    /** Who waits for the next part, and whether that may lie in a segment. */
    private Message asked;
    private boolean near;
    private long askedNanos = System.nanoTime();
    /** Parts that may still be read: the last that was told of, and the one before. */
    private final Deque<Lying> lying = new ArrayDeque<>();
    private String failed;
    private boolean ended;

    Pull(long number, Exchange exchange, Function<ByteBuffer, Lying> finding) {
        this.number = number;
        this.client = exchange.client();
        this.exchange = exchange;
        this.near = exchange.isNear();
        this.finding = finding;
    }

    /** Answers the request: with the head, and with the first part of the body, if there is anything of it. Before anything else is done with it; the rest as {@link #write} has it. */
    public void begin(Consumer<ByteBuffer> head, ByteBuffer bytes, boolean last, Runnable succeeded, Consumer<Throwable> failed) {
        give(bytes, last, new Written(succeeded, failed), () -> {
            boolean something = bytes.hasRemaining();
            ByteBuffer frame = Frames.begun(something ? Frames.BEGUN : Frames.PULLED, head).putLong(number);
            if (something) {
                return tell(frame);
            }
            Site.answer(exchange.claim(), frame.flip());
            return last ? NOTHING : dropped().succeeded;
        });
    }

    /** Gives the next bytes of the body, which stay as they are until it is said how it went: they were taken, or nobody will take them. */
    public void write(ByteBuffer bytes, boolean last, Runnable succeeded, Consumer<Throwable> failed) {
        give(bytes, last, new Written(succeeded, failed), this::goOn);
    }

    private void give(ByteBuffer bytes, boolean last, Written outcome, Supplier<Runnable> telling) {
        Runnable then;
        synchronized (this) {
            if (ended || failed != null) {
                then = () -> outcome.failed.accept(new EOFException("the body is over, or its client wants no more of it"));
            } else {
                this.written = bytes;
                this.last = last;
                this.outcome = outcome;
                then = told(telling);
            }
        }
        then.run();
    }

    /** If sending throws, the write fails, and the body with it. */
    private Runnable told(Supplier<Runnable> telling) {
        try {
            return telling.get();
        } catch (RuntimeException why) {
            Written waits = dropped();
            failed = "a part of it could not be sent";
            ended = !exchange.isAnswered();
            goOn();
            return () -> waits.failed.accept(why);
        }
    }

    /** The body cannot be gone on with. */
    public void fail() {
        Written waits;
        synchronized (this) {
            failed = "the service failed within the body";
            waits = dropped();
            goOn();
        }
        if (waits != null) {
            waits.failed.accept(new EOFException("the body failed"));
        }
    }

    /** The client asks for the next part: it has read the one before the last. */
    void ask(Message message, boolean near) {
        Runnable then;
        synchronized (this) {
            askedNanos = System.nanoTime();
            if (asked != null || ended) {
                then = () -> Site.answer(message, Frames.failed("two parts of one body were asked for at one time, or one after its end"));
            } else {
                this.asked = message;
                this.near = near;
                while (lying.size() > 1) {
                    lying.poll().done(true);
                }
                then = told(this::goOn);
            }
        }
        then.run();
    }

    /** Answers if there is something to answer with; gives what is to be done outside of the lock. */
    private Runnable goOn() {
        if (asked == null || (failed == null && outcome == null)) {
            return NOTHING;
        }
        if (failed != null) {
            ended = true;
            Site.answer(asker(null), Frames.failed(failed));
            return NOTHING;
        }
        return tell(null);
    }

    /** Says where the next part is, behind the head, if that is given. Whatever throws here does so before anybody is answered. */
    private Runnable tell(ByteBuffer head) {
        int end = last ? Frames.PART_LAST : 0;
        Lying place = near && written.remaining() >= Frames.HERE_BYTES_MAX ? finding.apply(written) : null;
        if (place != null && place.take()) {
            lying.add(place);
            ByteBuffer told = (head == null ? Frames.part(0) : head).put((byte) (Frames.PART_LIES + end));
            ByteBuffer frame = Frames.lies(told, place, written);
            Site.answer(asker(head), frame);
            return taken();
        }
        int count = Math.min(written.remaining(), head == null ? Frames.PART_BYTES_MAX : Frames.HERE_BYTES_MAX);
        ByteBuffer here = written.slice(written.position(), count);
        written.position(written.position() + count);
        boolean whole = !written.hasRemaining();
        ByteBuffer told = head == null ? Frames.part(count) : head;
        ByteBuffer frame = told.put((byte) (Frames.PART_HERE + (whole ? end : 0))).put(here).flip();
        Site.answer(asker(head), frame);
        return whole ? taken() : NOTHING;
    }

    /** Who waits for this answer: for one with the head, whoever made the request. */
    private Message asker(ByteBuffer head) {
        Message to = head == null ? asked : exchange.claim();
        asked = null;
        return to;
    }

    private Runnable taken() {
        ended = last;
        return dropped().succeeded;
    }

    private Written dropped() {
        Written was = outcome;
        outcome = null;
        written = null;
        return was;
    }

    /** No more of it is wanted: it was read; or nobody asked in time, and who still reads must find no other body's bytes. */
    void leave(boolean read) {
        Written waits;
        Message to;
        synchronized (this) {
            ended = true;
            lying.forEach(place -> place.done(read));
            lying.clear();
            waits = dropped();
            to = asked;
            asked = null;
        }
        if (to != null) {
            to.close();
        }
        if (waits != null) {
            waits.failed.accept(new EOFException("the client wants no more of it"));
        }
    }

    /** Whether its last part was taken, and nothing of it lies anywhere. */
    synchronized boolean isOver() {
        return ended && lying.isEmpty();
    }

    synchronized long idleNanos() {
        return System.nanoTime() - askedNanos;
    }

    /** One that waits too long is told that there is nothing yet. */
    synchronized void patience(long nanos) {
        if (asked != null && idleNanos() > nanos) {
            Site.answer(asked, Frames.part(0).put((byte) Frames.PART_HERE).flip());
            asked = null;
        }
    }

    /** What is to be said of bytes that were written. */
    private record Written(Runnable succeeded, Consumer<Throwable> failed) {}
}
