package catena;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;
import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A segment's bytes in place. The pages stay mapped as long as the buffer, or any slice or copy of it, is reachable: whatever becomes of the segment. */
public final class Mapping {
    private static final Cleaner CLEANER = Cleaner.create();
    private final ByteBuffer buffer;
    private final long map;
    private final ByteBuffer kept;

    Mapping(ByteBuffer buffer, boolean writable, long map) {
        this.kept = buffer;
        // Of the machine's own order, as words are that are compared and swapped.
        this.buffer = (writable ? buffer : buffer.asReadOnlyBuffer()).order(ByteOrder.nativeOrder());
        this.map = map;
    }

    /** The bytes. Others may change them at any time: take what is read as from a device. */
    public ByteBuffer buffer() {
        return buffer.duplicate().order(ByteOrder.nativeOrder());
    }

    /** Whether these are still the segment's pages. One that was revoked, or whose rights changed, has left them. */
    public boolean isCurrent() {
        IntByReference current = new IntByReference();
        C.check(C.catena_map_is_current(map, current));
        // The map is closed when nobody reaches the buffer any more, and not before this.
        java.lang.ref.Reference.reachabilityFence(kept);
        return current.getValue() != 0;
    }

    /** Where a direct buffer's next byte lies, for whoever looks for the segment that it is of. */
    public static long address(ByteBuffer direct) {
        return Pointer.nativeValue(Native.getDirectBufferPointer(direct)) + direct.position();
    }

    /** Memory of the library as a buffer; its handle is closed when nobody reaches the buffer, or what was made of it, any more. */
    static ByteBuffer held(Pointer first, long bytes, long handle) {
        if (bytes > Integer.MAX_VALUE) {
            C.catena_close(handle);
            throw new IllegalArgumentException(bytes + " bytes do not fit into a ByteBuffer: read them in parts");
        }
        ByteBuffer buffer = bytes == 0 ? ByteBuffer.allocateDirect(0) : first.getByteBuffer(0, bytes);
        CLEANER.register(buffer, () -> C.catena_close(handle));
        return buffer;
    }
}
