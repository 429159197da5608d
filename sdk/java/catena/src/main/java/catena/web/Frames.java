package catena.web;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/** What goes in messages: as {@code apps/web/src/frame.rs} has it. */
final class Frames {
    static final int HERE = 0;
    static final int LIES = 1;
    static final int PULLED = 2;
    /** As pulled, and the body's number is followed by its first part. */
    static final int BEGUN = 3;
    static final int PART_HERE = 0;
    static final int PART_LIES = 2;
    /** Added to the kind of a part that is the last. */
    static final int PART_LAST = 1;
    static final int PART_FAILED = 4;
    /** Bytes of a body that goes with its head, at most; larger ones are read where they lie. */
    static final int HERE_BYTES_MAX = 64 << 10;
    /** Bytes of content that goes with its head in one frame, at most, wherever it lies. */
    static final int SHORT_BYTES_MAX = 8 << 10;
    /** Bytes of a part, at most. */
    static final int PART_BYTES_MAX = (1 << 20) - 1;
    /** Bytes of a response's head, at most. */
    private static final int HEAD_BYTES_MAX = 48 << 10;
    /** What else is in an answer beside head and body. */
    private static final int ROOM_BYTES = 1024;
    private static final ThreadLocal<ByteBuffer> ROOM = ThreadLocal.withInitial(() -> little(ByteBuffer.allocateDirect(
            HEAD_BYTES_MAX + HERE_BYTES_MAX + ROOM_BYTES)));

    private Frames() {}

    static ByteBuffer little(ByteBuffer buffer) {
        return buffer.order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The beginning of an answer to a fetch, in memory of this thread's: the place of its body, and its head, which is put there. Throws where it does not fit. */
    static ByteBuffer begun(int place, Consumer<ByteBuffer> head) {
        ByteBuffer frame = ROOM.get().clear().limit(HEAD_BYTES_MAX);
        head.accept(frame.put((byte) place).putInt(0));
        return frame.putInt(1, frame.position() - 5).limit(frame.capacity());
    }

    /** Where content lies. */
    static ByteBuffer lies(ByteBuffer frame, Lying lying, ByteBuffer content) {
        return frame.putLong(lying.offset(content)).putLong(content.remaining()).put(lying.name()).flip();
    }

    /** Memory for an answer that brings so many bytes of a body, and nothing of a head. */
    static ByteBuffer part(int bytes) {
        return bytes <= HERE_BYTES_MAX ? ROOM.get().clear() : ByteBuffer.allocate(1 + bytes);
    }

    static ByteBuffer failed(String why) {
        byte[] text = why.getBytes(StandardCharsets.UTF_8);
        return part(text.length).put((byte) PART_FAILED).put(text).flip();
    }

    /** A body's number; 0: it is none. */
    static long number(byte[] item) {
        return item.length == 8 ? little(ByteBuffer.wrap(item)).getLong() : 0;
    }
}
