package catena;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Where the messages of a service ID arrive. Several threads may wait at one: each message goes to one of them. */
public final class Mailbox extends Handle {
    /** Items of a message, at most. */
    private static final int ITEMS_MAX = 64;
    private static final ThreadLocal<Room> ROOM = ThreadLocal.withInitial(Room::new);

    Mailbox(long number) {
        super(number);
    }

    /** Waits for the next message so long; null: none came. */
    public Message receive(Duration time) {
        Room room = ROOM.get();
        int code = C.catena_receive_items(number, time.toMillis(), room.message, room.node, room.items, ITEMS_MAX, room.count);
        if (!C.came(code)) {
            return null;
        }
        int count = (int) Math.min(room.count.getLong(0), ITEMS_MAX);
        List<byte[]> items = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            long bytes = room.items.getLong((long) Items.STRIDE * index + 8);
            Pointer first = room.items.getPointer((long) Items.STRIDE * index);
            items.add(bytes == 0 ? new byte[0] : first.getByteArray(0, (int) bytes));
        }
        return new Message(room.message.getLong(0), room.node.getLong(0), items);
    }

    /**
     * Sends a long message: items that come with it, and parts of segments, which stay where they are and are read when the receiver likes, for {@code lasts} at most.
     */
    public Sent sendLong(String to, List<byte[]> items, List<Part> parts, Duration lasts) {
        long bytes = 24L * parts.size();
        try (Items all = new Items(items.toArray(new byte[0][])); Memory array = new Memory(Math.max(bytes, 1))) {
            for (int index = 0; index < parts.size(); index++) {
                Part part = parts.get(index);
                array.write(24L * index, new long[] {part.segment.number, part.offset, part.bytes}, 0, 3);
            }
            return new Sent(given(sent -> C.catena_send_long(
                    number, to, all.first(), all.count(), array, parts.size(), lasts.toMillis(), sent)));
        }
    }

    /** So many bytes of a segment of this process, from {@code offset} on. */
    public record Part(Segment segment, long offset, long bytes) {}

    /** A long message that is under way. */
    public static final class Sent extends Handle {
        Sent(long number) {
            super(number);
        }

        /** Waits until it was read, or its time is over, which is unknown then. Once. */
        public void await() {
            C.check(C.catena_sent_wait(number));
        }
    }

    /** A thread's own memory for what a message is told into. */
    private static final class Room {
        private final Memory memory = new Memory(24 + (long) Items.STRIDE * ITEMS_MAX);
        private final Pointer message = memory.share(0);
        private final Pointer node = memory.share(8);
        private final Pointer count = memory.share(16);
        private final Pointer items = memory.share(24);
    }
}
