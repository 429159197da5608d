package catena.jetty;

import catena.Mapping;
import catena.Node;
import catena.Segment;
import catena.web.Lying;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.RetainableByteBuffer;

/** Buffers that lie in segments which everybody may read, so that what is written out of them is read where it lies. */
public final class SegmentPool implements ByteBufferPool {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int PAGE_BYTES = 4096;
    private static final int STEP_BYTES = 1 << 20;

    private final Node node;
    private final String owner;
    private final long bytesMax;
    private final boolean swaps;
    /** By their first byte's address. */
    private final ConcurrentSkipListMap<Long, Pages> all = new ConcurrentSkipListMap<>();
    private final Map<Integer, Deque<Pages>> free = new TreeMap<>();
    private long bytes;

    /**
     * A pool in segments of a node.
     *
     * @param swaps for content that is read piece by piece: a buffer that was sent goes on with other pages, so that it can be filled again at once. Else for content that is
     *     kept, and sent again and again
     * @param bytesMax bytes of all segments; beyond, buffers lie in this process's own memory, and are copied when they are sent
     */
    public SegmentPool(Node node, boolean swaps, long bytesMax) {
        this.node = node;
        this.owner = node.address();
        this.swaps = swaps;
        this.bytesMax = bytesMax;
    }

    @Override
    public RetainableByteBuffer.Mutable acquire(int size, boolean direct) {
        Pages pages = direct ? pages(size) : null;
        return pages == null ? ByteBufferPool.NON_POOLING.acquire(size, direct) : new Buffer(pages);
    }

    @Override
    public synchronized void clear() {
        free.values().stream().flatMap(Deque::stream).forEach(this::drop);
        free.clear();
    }

    /** The pages in which a buffer's bytes lie, or null. */
    Lying find(ByteBuffer content) {
        if (!content.isDirect() || all.isEmpty()) {
            return null;
        }
        long at = Mapping.address(content);
        Map.Entry<Long, Pages> before = all.floorEntry(at);
        Pages pages = before == null ? null : before.getValue();
        return pages != null && at + content.remaining() <= pages.address + pages.memory.capacity() ? pages : null;
    }

    private synchronized Pages pages(int size) {
        int rounded = rounded(size);
        Deque<Pages> same = free.get(rounded);
        Pages pages = same == null ? null : same.poll();
        if (pages != null) {
            return pages;
        }
        if (bytes + rounded > bytesMax) {
            clear();
        }
        if (bytes + rounded > bytesMax) {
            return null;
        }
        String name = "jetty " + new BigInteger(128, RANDOM).toString(16);
        Segment segment = node.export(name, rounded, Segment.READ);
        bytes += rounded;
        return new Pages(segment, owner + "/" + name);
    }

    /** Whole pages; powers of two up to a MiB, so that the same are used again. */
    private static int rounded(int size) {
        int power = Math.max(PAGE_BYTES, Integer.highestOneBit(Math.max(size - 1, 1)) << 1);
        long steps = ((long) size + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
        return size <= STEP_BYTES ? power : (int) Math.min(steps, Integer.MAX_VALUE);
    }

    private synchronized void drop(Pages pages) {
        all.remove(pages.address);
        bytes -= pages.memory.capacity();
        pages.segment.close();
    }

    /** One segment, and its bytes in place. */
    private final class Pages implements Lying {
        private final Segment segment;
        private final ByteBuffer memory;
        private final long address;
        private final byte[] name;
        /** Whose content lies here now. */
        private volatile Buffer holder;
        /** Somebody may still read it who did not say when it was read: it is never used again. */
        private volatile boolean unread;

        private Pages(Segment segment, String name) {
            this.segment = segment;
            this.memory = segment.map(true).buffer();
            this.address = Mapping.address(memory);
            this.name = name.getBytes(StandardCharsets.UTF_8);
            all.put(address, this);
        }

        @Override
        public byte[] name() {
            return name;
        }

        @Override
        public long offset(ByteBuffer content) {
            return Mapping.address(content) - address;
        }

        @Override
        public boolean isKept() {
            return !swaps;
        }

        @Override
        public boolean take() {
            Buffer from = holder;
            if (from != null && !swaps) {
                from.retain();
            }
            return from != null && (!swaps || from.swap());
        }

        @Override
        public void done(boolean read) {
            unread |= !read;
            if (holder == null) {
                reuse();
            } else {
                holder.release();
            }
        }

        /** Nobody writes here any more. What was told of and may still be read is gone for who comes later. */
        private void reuse() {
            holder = null;
            if (unread) {
                drop(this);
                return;
            }
            synchronized (SegmentPool.this) {
                free.computeIfAbsent(memory.capacity(), capacity -> new ArrayDeque<>()).push(this);
            }
        }
    }

    /** A buffer of Jetty's. What was sent out of it can be taken from it: it has other pages then, as if what it had were sent and gone (libRIPC, section IV). */
    private final class Buffer extends RetainableByteBuffer.FixedCapacity {
        private Pages pages;
        private ByteBuffer bytes;

        private Buffer(Pages pages) {
            super(pages.memory.duplicate().limit(0));
            settle(pages);
        }

        private void settle(Pages pages) {
            this.pages = pages;
            this.bytes = pages.memory.duplicate().limit(0);
            pages.holder = this;
        }

        /** Takes the pages away; false: there are no others. */
        private synchronized boolean swap() {
            Pages fresh = pages(bytes.capacity());
            if (fresh == null) {
                return false;
            }
            pages.holder = null;
            settle(fresh);
            return true;
        }

        @Override
        public synchronized ByteBuffer getByteBuffer() {
            return bytes;
        }

        @Override
        public int remaining() {
            return getByteBuffer().remaining();
        }

        @Override
        public synchronized boolean release() {
            boolean last = super.release();
            if (last) {
                pages.reuse();
            }
            return last;
        }
    }
}
