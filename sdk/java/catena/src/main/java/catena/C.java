package catena;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.util.Map;

/** The C interface as it is: {@code sdk/c/include/catena.h} says what each function does. */
final class C {
    private static final int MAJOR = 1;
    /** {@code catena_receive_items} came with it. */
    private static final int MINOR_MIN = 1;
    private static final int TIMED_OUT = 3;
    private static final int UNKNOWN = 7;

    static {
        String named = System.getProperty("catena.library", System.getenv().getOrDefault("CATENA_LIBRARY", "catena_c"));
        NativeLibrary library = NativeLibrary.getInstance(named, Map.of(Library.OPTION_STRING_ENCODING, "UTF-8"));
        Native.register(C.class, library);
        int version = catena_abi_version();
        if (version >>> 16 != MAJOR || (version & 0xffff) < MINOR_MIN) {
            throw new UnsatisfiedLinkError(named + " has version " + (version >>> 16) + "." + (version & 0xffff)
                    + " of its interface, and this needs " + MAJOR + "." + MINOR_MIN);
        }
    }

    private C() {}

    /** Throws what a code stands for. */
    static void check(int code) {
        if (code != 0) {
            throw failure(code);
        }
    }

    /** As {@link #check}; false: nothing came in time. */
    static boolean came(int code) {
        if (code == TIMED_OUT) {
            return false;
        }
        check(code);
        return true;
    }

    private static CatenaException failure(int code) {
        return new CatenaException(code, catena_last_error_name(), catena_last_error(), code == UNKNOWN);
    }

    static native int catena_abi_version();

    static native String catena_last_error();

    static native String catena_last_error_name();

    static native int catena_node_start(String name, String listen, String join, int flags, LongByReference node);

    static native int catena_client_connect(String name, String address, int flags, LongByReference client);

    static native int catena_node_address(long node, byte[] out, long capacity, LongByReference length);

    static native int catena_id(long party, LongByReference id);

    static native int catena_close(long handle);

    static native int catena_segment_export(long node, String name, long bytes, int anyone, LongByReference segment);

    static native int catena_segment_import(long party, String name, LongByReference segment);

    static native int catena_segment_bytes(long segment, LongByReference bytes);

    static native int catena_segment_owner(long segment, LongByReference node);

    static native int catena_segment_read(long segment, long offset, Pointer out, long count);

    static native int catena_segment_write(long segment, long offset, Pointer bytes, long count);

    static native int catena_segment_flush(long segment);

    static native int catena_segment_cas(long segment, long offset, long expected, long desired, LongByReference was);

    static native int catena_segment_allow(long exported, long importer, int bits);

    static native int catena_segment_revoke(long exported);

    static native int catena_segment_map(
            long segment, int write, PointerByReference address, LongByReference bytes, LongByReference map);

    static native int catena_map_is_current(long map, IntByReference current);

    static native int catena_mailbox_open(long party, String service, LongByReference mailbox);

    static native int catena_receive_items(
            long from, long timeoutMs, Pointer message, Pointer node, Pointer all, long capacity, Pointer count);

    static native int catena_message_from(long from, byte[] out, long capacity, LongByReference length, LongByReference node);

    static native int catena_message_counts(long of, LongByReference items, LongByReference buffers);

    static native int catena_message_buffer_bytes(long of, long index, LongByReference bytes);

    static native int catena_message_buffer_read(long of, long index, long offset, Pointer out, long count);

    static native int catena_message_answer(long to, Pointer bytes, long count, IntByReference carrier);

    static native int catena_send_short(long party, String from, String to, Pointer all, long count);

    static native int catena_send_long(
            long from, String to, Pointer all, long count, Pointer parts, long partCount, long lastsMs, LongByReference sent);

    static native int catena_sent_wait(long sent);

    static native int catena_ask(
            long party, String to, Pointer all, long count, long room, long bytesMax, long timeoutMs, LongByReference answer);

    static native int catena_answer_bytes(long answer, PointerByReference bytes, LongByReference count, IntByReference carrier);

    static native int catena_answer_from(long answer, LongByReference node);
}
