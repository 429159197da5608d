package catena.web;

import catena.Message;
import java.io.EOFException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Consumer;
import java.util.function.Function;

/** A body that its client asks for part by part. What it does not ask for is not taken: who reads nothing costs one part, for a time. */
public final class Pull {
    private static final Runnable NOTHING = () -> {};
    final long number;
    final long client;
    private final Function<ByteBuffer, Lying> finding;
    /** What was written, and is not taken. */
    private ByteBuffer written;
    private boolean last;
    private Written outcome;
    /** Who waits for the head or the next part, and whether that may lie in a segment. */
    private Message asked;
    private boolean near;
    private boolean begun;
    private long askedNanos = System.nanoTime();
    /** Parts that may still be read: the last that was told of, and the one before. */
    private final Deque<Lying> lying = new ArrayDeque<>();
    private String failed;
    private boolean ended;

    Pull(long number, Message asked, boolean near, Function<ByteBuffer, Lying> finding) {
        this.number = number;
        this.client = asked.node();
        this.asked = asked;
        this.near = near;
        this.finding = finding;
    }

    /** Answers the request: with the head, and with the first part of the body, if there is anything of it. Before anything else is done with it; the rest as {@link #write} has it. */
    public void begin(Consumer<ByteBuffer> head, ByteBuffer bytes, boolean last, Runnable succeeded, Consumer<Throwable> failed) {
        Runnable then;
        synchronized (this) {
            boolean something = bytes.hasRemaining();
            ByteBuffer frame = Frames.begun(something ? Frames.BEGUN : Frames.PULLED, head).putLong(number);
            Message to = asked;
            asked = null;
            begun = true;
            if (ended) {
                then = () -> failed.accept(new EOFException("the client wants no more of it"));
            } else if (something) {
                this.written = bytes;
                this.last = last;
                this.outcome = new Written(succeeded, failed);
                then = tell(to, frame);
            } else {
                Site.answer(to, frame.flip());
                then = succeeded;
            }
        }
        then.run();
    }

    /** Gives the next bytes of the body, which stay as they are until it is said how it went: they were taken, or nobody will take them. */
    public void write(ByteBuffer bytes, boolean last, Runnable succeeded, Consumer<Throwable> failed) {
        Written outcome = new Written(succeeded, failed);
        Runnable then;
        synchronized (this) {
            if (ended) {
                then = () -> failed.accept(new EOFException("the client wants no more of it"));
            } else {
                this.written = bytes;
                this.last = last;
                this.outcome = outcome;
                then = goOn();
            }
        }
        then.run();
    }

    /** The body cannot be gone on with. */
    public void fail() {
        Runnable then;
        synchronized (this) {
            failed = "the service failed within the body";
            if (!begun && asked != null) {
                Site.told(asked, 500, "the service failed");
                asked = null;
                ended = true;
            }
            Written waits = dropped();
            Runnable answer = goOn();
            then = () -> {
                answer.run();
                if (waits != null) {
                    waits.failed.accept(new EOFException("the body failed"));
                }
            };
        }
        then.run();
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
                then = goOn();
            }
        }
        then.run();
    }

    /** Answers if there is something to answer with; gives what is to be done outside of the lock. */
    private Runnable goOn() {
        if (!begun || asked == null || (failed == null && outcome == null)) {
            return NOTHING;
        }
        Message to = asked;
        asked = null;
        if (failed != null) {
            ended = true;
            Site.answer(to, Frames.failed(failed));
            return NOTHING;
        }
        return tell(to, null);
    }

    /** Says where the next part is, behind what is in the frame, if there is one. */
    private Runnable tell(Message to, ByteBuffer frame) {
        int end = last ? Frames.PART_LAST : 0;
        Lying place = near && written.remaining() >= Frames.HERE_BYTES_MAX ? finding.apply(written) : null;
        if (place != null && place.take()) {
            lying.add(place);
            ByteBuffer told = frame == null ? Frames.part(0) : frame;
            Site.answer(to, Frames.lies(told.put((byte) (Frames.PART_LIES + end)), place, written));
            return taken();
        }
        int count = Math.min(written.remaining(), frame == null ? Frames.PART_BYTES_MAX : Frames.HERE_BYTES_MAX);
        ByteBuffer here = written.slice(written.position(), count);
        written.position(written.position() + count);
        boolean whole = !written.hasRemaining();
        ByteBuffer told = frame == null ? Frames.part(count) : frame;
        Site.answer(to, told.put((byte) (Frames.PART_HERE + (whole ? end : 0))).put(here).flip());
        return whole ? taken() : NOTHING;
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
        if (begun && asked != null && idleNanos() > nanos) {
            Site.answer(asked, Frames.part(0).put((byte) Frames.PART_HERE).flip());
            asked = null;
        }
    }

    /** What is to be said of bytes that were written. */
    private record Written(Runnable succeeded, Consumer<Throwable> failed) {}
}
