package catena;

import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** A message that came. Closed, it tells its sender that what was left to be read is read. */
public final class Message extends Handle {
    private static final int SERVICE_BYTES_MAX = 300;
    private final long node;
    private final List<byte[]> items;

    Message(long number, long node, List<byte[]> items) {
        super(number);
        this.node = node;
        this.items = List.copyOf(items);
    }

    /** The {@link Party#id} of the node or client that it came from. */
    public long node() {
        return node;
    }

    /** The service ID that sent it; empty: one that takes no messages. */
    public String from() {
        byte[] text = new byte[SERVICE_BYTES_MAX];
        LongByReference length = new LongByReference();
        C.check(C.catena_message_from(number, text, text.length, length, null));
        return new String(text, 0, (int) length.getValue(), StandardCharsets.UTF_8);
    }

    /** What came with it. */
    public List<byte[]> items() {
        return items;
    }

    /** How many buffers a long message has. */
    public int buffers() {
        return (int) given(count -> C.catena_message_counts(number, null, count));
    }

    /** How many bytes a buffer has, as its sender says. */
    public long bufferBytes(int index) {
        return given(bytes -> C.catena_message_buffer_bytes(number, index, bytes));
    }

    /** Reads bytes of a buffer from its sender, from {@code offset} on, as many as {@code out} has room for. */
    public void read(int index, long offset, ByteBuffer out) {
        Memories.filled(out, (to, count) -> C.catena_message_buffer_read(number, index, offset, to, count));
    }

    /** Answers it, in one frame if the answer fits, else in the asker's return buffer, else by leaving it here to be read. */
    public Carrier answer(ByteBuffer bytes) {
        IntByReference carrier = new IntByReference();
        Memories.taken(bytes, (from, count) -> C.catena_message_answer(number, from, count, carrier));
        return Carrier.values()[carrier.getValue()];
    }

    /** How an answer went, in the order of the C interface's numbers. */
    public enum Carrier {
        /** In one frame. */
        SHORT,
        /** Into the return buffer. */
        RETURNED,
        /** It is read from here. */
        LONG
    }
}
