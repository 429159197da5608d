package catena;

import com.sun.jna.ptr.LongByReference;
import java.nio.charset.StandardCharsets;

/** A node: it listens, exports segments and serves. */
public final class Node extends Party {
    private static final int ADDRESS_BYTES_MAX = 300;

    private Node(long number) {
        super(number);
    }

    /**
     * Starts a node.
     *
     * @param name for people
     * @param listen {@code HOST:PORT}; port 0 lets the system choose
     * @param join another node's address, or null
     */
    public static Node start(String name, String listen, String join) {
        return new Node(given(node -> C.catena_node_start(name, listen, join, 0, node)));
    }

    /** Where it is reached. */
    public String address() {
        byte[] text = new byte[ADDRESS_BYTES_MAX];
        LongByReference length = new LongByReference();
        C.check(C.catena_node_address(number, text, text.length, length));
        return new String(text, 0, (int) length.getValue(), StandardCharsets.UTF_8);
    }

    /** Exports so many bytes of zeros by a name; {@code anyone}: what everybody may do, of {@link Segment#READ} and the others. */
    public Segment export(String name, long bytes, int anyone) {
        return new Segment(given(segment -> C.catena_segment_export(number, name, bytes, anyone, segment)));
    }
}
