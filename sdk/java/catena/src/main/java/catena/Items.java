package catena;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;

/** Items of a message as C has them: an array of {@code catena_bytes}, and the bytes behind it. */
final class Items implements AutoCloseable {
    /** Bytes of a {@code catena_bytes}: where, and how many. */
    static final int STRIDE = 16;
    private final Memory memory;
    private final int count;

    Items(byte[]... items) {
        count = items.length;
        long bytes = (long) STRIDE * count;
        for (byte[] item : items) {
            bytes += item.length;
        }
        memory = count == 0 ? null : new Memory(bytes);
        long at = (long) STRIDE * count;
        for (int index = 0; index < count; index++) {
            byte[] item = items[index];
            memory.setPointer((long) STRIDE * index, memory.share(at));
            memory.setLong((long) STRIDE * index + 8, item.length);
            memory.write(at, item, 0, item.length);
            at += item.length;
        }
    }

    Pointer first() {
        return memory == null ? Pointer.NULL : memory;
    }

    long count() {
        return count;
    }

    @Override
    public void close() {
        if (memory != null) {
            memory.close();
        }
    }
}
