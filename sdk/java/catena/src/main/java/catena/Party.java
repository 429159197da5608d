package catena;

import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.PointerByReference;
import java.nio.ByteBuffer;
import java.time.Duration;

/** A node or a client: whoever takes part. */
public abstract class Party extends Handle {
    /** Shares no memory with others on this host, for tests and comparisons. */
    static final int WITHOUT_SHARED_MEMORY = 1;

    Party(long number) {
        super(number);
    }

    /** The number of this run: what owners of segments give rights to. */
    public long id() {
        return given(id -> C.catena_id(number, id));
    }

    /** Imports a segment by {@code OWNER/NAME}: the owner by its own name, by a service that it serves, or by its address. */
    public Segment importSegment(String name) {
        return new Segment(given(segment -> C.catena_segment_import(number, name, segment)));
    }

    /** Takes messages for a service ID from now on. */
    public Mailbox mailbox(String service) {
        return new Mailbox(given(mailbox -> C.catena_mailbox_open(number, service, mailbox)));
    }

    /** Sends a short message of at most 64 items of 12 KiB together, which may be lost; {@code from} is the service ID that it comes from, or empty. */
    public void sendShort(String from, String to, byte[]... items) {
        try (Items all = new Items(items)) {
            C.check(C.catena_send_short(number, from, to, all.first(), all.count()));
        }
    }

    /**
     * Asks a service, and waits for its answer.
     *
     * @param room bytes of the return buffer into which a larger answer is written; 0: none
     * @param bytesMax bytes of the answer at most
     */
    public Answer ask(String to, long room, long bytesMax, Duration time, byte[]... items) {
        try (Items all = new Items(items)) {
            long answer = given(out ->
                    C.catena_ask(number, to, all.first(), all.count(), room, bytesMax, time.toMillis(), out));
            try {
                PointerByReference bytes = new PointerByReference();
                LongByReference count = new LongByReference();
                C.check(C.catena_answer_bytes(answer, bytes, count, new IntByReference()));
                long from = given(node -> C.catena_answer_from(answer, node));
                ByteBuffer buffer = Mapping.held(bytes.getValue(), count.getValue(), answer).asReadOnlyBuffer();
                return new Answer(buffer, from);
            } catch (RuntimeException why) {
                C.catena_close(answer);
                throw why;
            }
        }
    }

    /**
     * An answer.
     *
     * @param bytes what was answered, where the library has it, for as long as this buffer or a part of it is used
     * @param node the {@link Party#id} of who answered; 0: it wrote into the return buffer, and is not known
     */
    public record Answer(ByteBuffer bytes, long node) {}
}
