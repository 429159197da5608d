package catena;

import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;

/** Java's buffers as C's memory: direct ones as they are, others by a copy. */
final class Memories {
    private Memories() {}

    /** Has C write into what remains of a buffer. */
    static void filled(ByteBuffer out, Segment.Copy copy) {
        int count = out.remaining();
        if (out.isReadOnly()) {
            throw new java.nio.ReadOnlyBufferException();
        }
        if (out.isDirect() || count == 0) {
            C.check(copy.copy(pointer(out), count));
            out.position(out.limit());
            return;
        }
        try (Memory memory = new Memory(count)) {
            C.check(copy.copy(memory, count));
            out.put(memory.getByteBuffer(0, count));
        }
    }

    /** Has C read what remains of a buffer. */
    static void taken(ByteBuffer bytes, Segment.Copy copy) {
        int count = bytes.remaining();
        if (bytes.isDirect() || count == 0) {
            C.check(copy.copy(pointer(bytes), count));
            bytes.position(bytes.limit());
            return;
        }
        try (Memory memory = new Memory(count)) {
            memory.getByteBuffer(0, count).put(bytes);
            C.check(copy.copy(memory, count));
        }
    }

    private static Pointer pointer(ByteBuffer buffer) {
        return buffer.isDirect() ? Native.getDirectBufferPointer(buffer).share(buffer.position()) : Pointer.NULL;
    }
}
