package catena;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.nio.ByteBuffer;

/** Memory that others use without this process's code running: one's own, or another's that was imported. */
public final class Segment extends Handle {
    /** Others may read. */
    public static final int READ = 1;
    /** Others may write. */
    public static final int WRITE = 2;
    /** Others may compare and swap words. */
    public static final int CAS = 4;

    Segment(long number) {
        super(number);
    }

    /** Its size. */
    public long bytes() {
        return given(bytes -> C.catena_segment_bytes(number, bytes));
    }

    /** The {@link Party#id} of the node that owns it. */
    public long owner() {
        return given(node -> C.catena_segment_owner(number, node));
    }

    /** Copies bytes from {@code offset} on, as many as {@code out} has room for. */
    public void read(long offset, ByteBuffer out) {
        Memories.filled(out, (to, count) -> C.catena_segment_read(number, offset, to, count));
    }

    /** Copies what remains of {@code bytes} to {@code offset}. Into an imported segment they are taken when this returns, and there after {@link #flush}. */
    public void write(long offset, ByteBuffer bytes) {
        Memories.taken(bytes, (from, count) -> C.catena_segment_write(number, offset, from, count));
    }

    /** Waits until everything that was written to an imported segment has been done. */
    public void flush() {
        C.check(C.catena_segment_flush(number));
    }

    /** Puts {@code desired} in the place of the aligned word of 8 bytes at {@code offset} if that is {@code expected}; gives what was there. */
    public long compareAndSwap(long offset, long expected, long desired) {
        return given(was -> C.catena_segment_cas(number, offset, expected, desired, was));
    }

    /** Gives one importer rights of its own, in the place of what everybody may do. It may move the segment to other pages: map it anew. */
    public void allow(long importer, int rights) {
        C.check(C.catena_segment_allow(number, importer, rights));
    }

    /** Takes one's own segment back: when this returns, no byte of it is read or changed by others any more. */
    public void revoke() {
        C.check(C.catena_segment_revoke(number));
    }

    /** The bytes in place, without a copy: of one's own always; of another's where its memory is shared with this process ({@code NoRight} else), to be written only if that is wanted. */
    public Mapping map(boolean write) {
        PointerByReference address = new PointerByReference();
        LongByReference bytes = new LongByReference();
        long map = given(out -> C.catena_segment_map(number, write ? 1 : 0, address, bytes, out));
        return new Mapping(Mapping.held(address.getValue(), bytes.getValue(), map), write, map);
    }

    /** What a function of the C interface does with memory. */
    interface Copy {
        int copy(Pointer memory, long count);
    }
}
