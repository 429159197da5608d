package catena.web;

import catena.Message;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** A request, and the ways to answer it. A head is as HTTP/1.1 has it, with the empty line at its end; it is put into the buffer that is given. */
public final class Exchange {
    private final Site site;
    private final Message message;
    private final ByteBuffer body;
    private final boolean near;
    private final AtomicBoolean answered = new AtomicBoolean();
    private final AtomicBoolean over = new AtomicBoolean();

    Exchange(Site site, Message message, ByteBuffer body, boolean near) {
        this.site = site;
        this.message = message;
        this.body = body;
        this.near = near;
    }

    /** The {@link catena.Party#id} of who asks. */
    public long client() {
        return message.node();
    }

    /** The request's head. */
    public byte[] head() {
        return message.items().size() < 2 ? new byte[0] : message.items().get(1);
    }

    /** The request's body, all of it. */
    public ByteBuffer body() {
        return body;
    }

    /** Whether so many bytes go with their head wherever they lie: more to whom no memory is shared, since it would take another round trip to read them. */
    public boolean isShort(long bytes) {
        return bytes <= (near ? Frames.SHORT_BYTES_MAX : Frames.HERE_BYTES_MAX);
    }

    /** Whether so many bytes go with their head, if they lie in no segment. */
    public static boolean isSmall(long bytes) {
        return bytes <= Frames.HERE_BYTES_MAX;
    }

    /** Whether an answer was begun: no other can be. */
    public boolean isAnswered() {
        return answered.get();
    }

    /** Answers with a small body. */
    public void here(Consumer<ByteBuffer> head, ByteBuffer small) {
        ByteBuffer frame = Frames.begun(Frames.HERE, head).put(small).flip();
        Site.answer(claim(), frame);
    }

    /** Answers by saying where the body lies, if that is kept; false: it is not, and nothing was answered. */
    public boolean lies(Consumer<ByteBuffer> head, ByteBuffer content) {
        Lying lying = site.finding.apply(content);
        if (lying == null || !lying.isKept() || !site.lend(lying)) {
            return false;
        }
        ByteBuffer frame = Frames.lies(Frames.begun(Frames.LIES, head), lying, content);
        Site.answer(claim(), frame);
        return true;
    }

    /** A body of which the first part goes with the head, and the rest is pulled. Null: too many are, and it was answered so. */
    public Pull pulled() {
        Pull pull = site.keep(this);
        if (pull == null) {
            told(503, "too many bodies are under way");
        }
        return pull;
    }

    /** Answers in the server's own words, unless it was answered. */
    public void told(int status, String why) {
        if (answered.compareAndSet(false, true)) {
            Site.told(message, status, why);
        }
    }

    /** Takes the right to answer, which can be done once. To be called before the answer is sent: its client may ask for the next part at once. */
    Message claim() {
        if (!answered.compareAndSet(false, true)) {
            throw new IllegalStateException("the request was answered before");
        }
        return message;
    }

    /** Whether a body may lie in a segment. */
    boolean isNear() {
        return near;
    }

    /** The response is there, or never will be: the place is free for another request. */
    public void end() {
        if (over.compareAndSet(false, true)) {
            site.ended(client());
        }
    }
}
