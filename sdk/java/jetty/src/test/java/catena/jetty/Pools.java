package catena.jetty;

import catena.Node;
import catena.web.Lying;
import java.nio.ByteBuffer;
import org.eclipse.jetty.io.RetainableByteBuffer;

/** What a pool does that is full, with room for two buffers: its own, and what becomes of their pages. */
public final class Pools {
    private static final int BYTES = 4096;
    private static final long BYTES_MAX = 2 * BYTES;

    private Pools() {}

    /** All of it, by a node of its own. */
    public static void main(String[] arguments) throws Exception {
        try (Node node = Node.start("pools", "127.0.0.1:0", null)) {
            full(node);
            anotherSize(node);
            kept(node);
            swapped(node);
        }
        System.out.println("all of it");
        System.exit(0);
    }

    /** Beyond its room buffers lie in this process's own memory, and are as good; when one comes back there is room again. */
    private static void full(Node node) {
        SegmentPool pool = new SegmentPool(node, false, BYTES_MAX);
        RetainableByteBuffer first = acquire(pool, BYTES, true);
        RetainableByteBuffer second = acquire(pool, 1, true);
        RetainableByteBuffer third = acquire(pool, BYTES, false);
        first.release();
        RetainableByteBuffer fourth = acquire(pool, BYTES, true);
        RetainableByteBuffer fifth = acquire(pool, BYTES, false);
        for (RetainableByteBuffer buffer : new RetainableByteBuffer[] {second, third, fourth, fifth}) {
            check(buffer.release(), "nobody else has it");
        }
        acquire(pool, BYTES, true);
        acquire(pool, BYTES, true);
    }

    /** What lies idle goes for what is wanted, and nothing makes room for what is longer than all. */
    private static void anotherSize(Node node) {
        SegmentPool pool = new SegmentPool(node, false, BYTES_MAX);
        RetainableByteBuffer first = acquire(pool, BYTES, true);
        RetainableByteBuffer second = acquire(pool, BYTES, true);
        first.release();
        acquire(pool, 2 * BYTES, false);
        second.release();
        RetainableByteBuffer large = acquire(pool, 2 * BYTES, true);
        acquire(pool, BYTES, false);
        large.release();
        acquire(pool, 2 * BYTES + 1, false);
        acquire(pool, BYTES, true);
    }

    /** What was told of, and may still be read, is given back last; one of which nobody says that it was read is not used again, and makes room. */
    private static void kept(Node node) {
        SegmentPool pool = new SegmentPool(node, false, BYTES_MAX);
        for (boolean read : new boolean[] {true, false, true}) {
            RetainableByteBuffer lent = acquire(pool, BYTES, true);
            RetainableByteBuffer other = acquire(pool, BYTES, true);
            Lying told = pool.find(content(lent, BYTES));
            check(told.take(), "what is kept is lent as often as it is asked for");
            check(!lent.release(), "it is still lent");
            acquire(pool, BYTES, false);
            told.done(read);
            RetainableByteBuffer next = acquire(pool, BYTES, true);
            check((pool.find(content(next, BYTES)) == told) == read, "only what was read is used again");
            next.release();
            other.release();
        }
    }

    /** A buffer that was sent goes on with other pages; where there are none it keeps its own, and what is in it is copied. */
    private static void swapped(Node node) {
        SegmentPool pool = new SegmentPool(node, true, BYTES_MAX);
        RetainableByteBuffer buffer = acquire(pool, BYTES, true);
        Lying sent = pool.find(content(buffer, BYTES));
        check(sent.take() && pool.find(content(buffer, BYTES)) != sent, "it has other pages");
        Lying next = pool.find(content(buffer, BYTES));
        check(!next.take() && pool.find(content(buffer, BYTES)) == next, "there are no others");
        sent.done(true);
        check(next.take() && pool.find(content(buffer, BYTES)) == sent, "there are again");
    }

    /** A buffer of which so many bytes can be used, in a segment or not. */
    private static RetainableByteBuffer acquire(SegmentPool pool, int bytes, boolean inSegment) {
        RetainableByteBuffer buffer = pool.acquire(bytes, true);
        ByteBuffer content = content(buffer, bytes);
        for (int at = 0; at < bytes; at++) {
            content.put(at, (byte) at);
        }
        check((pool.find(content) != null) == inSegment, bytes + " bytes in " + (inSegment ? "no segment" : "a segment"));
        return buffer;
    }

    private static ByteBuffer content(RetainableByteBuffer buffer, int bytes) {
        return buffer.getByteBuffer().duplicate().clear().limit(bytes);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
