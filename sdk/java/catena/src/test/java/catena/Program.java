package catena;

import catena.web.Fetcher;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** Everything that the library has, against a node of another process; and it done wrong. */
public final class Program {
    private static final Duration TIME = Duration.ofSeconds(10);

    private Program() {}

    /**
     * {@code Program ADDRESS}: all of it; {@code Program ADDRESS SITE TARGET}: fetches, says how many bytes there were and their sum, and holds them until it is killed;
     * {@code Program ADDRESS SITE TARGET TARGET...}: fetches one after the other, and says how each went.
     */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 3) {
            tries(arguments[0], arguments[1], List.of(arguments).subList(2, arguments.length));
            return;
        }
        if (arguments.length == 3) {
            holds(arguments[0], arguments[1], arguments[2]);
            return;
        }
        String address = arguments[0];
        try (Node node = Node.start("java", "127.0.0.1:0", address); Client client = Client.connect("java client", address)) {
            own(node, client);
            others(client, address);
            messages(node, client);
            wrong(node, client);
            apart(address);
        }
        System.out.println("all of it");
        System.exit(0);
    }

    private static void holds(String address, String site, String target) throws Exception {
        try (Client client = Client.connect("java fetcher", address); Fetcher fetcher = new Fetcher(client)) {
            Fetcher.Response response = fetcher.fetch(site, "GET " + target + " HTTP/1.1\r\n\r\n", 100 << 20);
            // What is kept is not copied: a second time it is the same memory.
            long first = Mapping.address(response.body());
            check(Mapping.address(fetcher.fetch(site, "GET " + target + " HTTP/1.1\r\n\r\n", 100 << 20).body()) == first, "it was copied");
            long sum = 0;
            for (ByteBuffer bytes = response.body().duplicate(); bytes.hasRemaining(); ) {
                sum += bytes.get() & 0xff;
            }
            System.out.println(response.status() + " " + response.body().remaining() + " " + sum);
            System.in.read();
        }
    }

    private static void tries(String address, String site, List<String> targets) {
        try (Client client = Client.connect("java fetcher", address); Fetcher fetcher = new Fetcher(client)) {
            for (String target : targets) {
                try {
                    Fetcher.Response response = fetcher.fetch(site, "GET " + target + " HTTP/1.1\r\n\r\n", 100 << 20);
                    System.out.println(response.status() + " " + response.body().remaining());
                } catch (IOException | CatenaException why) {
                    System.out.println(why.getMessage());
                }
            }
        }
    }

    private static void own(Node node, Client client) {
        try (Segment own = node.export("own", 1 << 20, Segment.READ)) {
            Mapping mapping = own.map(true);
            ByteBuffer bytes = mapping.buffer();
            check(bytes.isDirect() && bytes.capacity() == 1 << 20, "all of it is there");
            check(Mapping.address(bytes) == Mapping.address(own.map(true).buffer()), "two maps are of the same bytes");
            Segment far = client.importSegment(node.address() + "/own");
            ByteBuffer seen = far.map(false).buffer();
            check(seen.isReadOnly() && far.owner() == node.id() && far.bytes() == 1 << 20, "another's");
            bytes.putDouble(4096, 3.25);
            check(seen.getDouble(4096) == 3.25, "what is put here is seen there");
            own.write(8, text("copied"));
            ByteBuffer heap = ByteBuffer.allocate(6);
            far.read(8, heap);
            check(heap.flip().equals(text("copied")), "what is written is read");
            own.revoke();
            check(!mapping.isCurrent() || refused(() -> far.read(0, ByteBuffer.allocate(1))) != null, "revoked");
            check(seen.getDouble(4096) == 3.25, "pages outlive the segment");
            far.close();
        }
        // A slice alone keeps the pages.
        ByteBuffer slice = sliced(node);
        for (int again = 0; again < 3; again++) {
            System.gc();
        }
        slice.put(0, (byte) 7);
        check(slice.get(0) == 7, "a slice outlives its segment and its map");
    }

    private static ByteBuffer sliced(Node node) {
        try (Segment own = node.export("slice", 1 << 16, 0)) {
            return own.map(true).buffer().slice(100, 100);
        }
    }

    private static void others(Client client, String address) {
        try (Segment far = client.importSegment(address + "/shared")) {
            ByteBuffer bytes = far.map(true).buffer();
            check(bytes.slice(0, 9).equals(text("from rust")), "read in place");
            bytes.put(300, "from java".getBytes(StandardCharsets.US_ASCII));
            check(far.compareAndSwap(24_000, 0, 5) == 0 && far.compareAndSwap(24_000, 0, 6) == 5, "swapped");
            far.write(400, text("by a copy"));
            far.flush();
        }
        check("UnknownSegment".equals(refused(() -> client.importSegment(address + "/secret"))), "nobody may");
    }

    private static void messages(Node node, Client client) throws Exception {
        Party.Answer answer = client.ask("echo", 0, 1000, TIME, bytes("one"), new byte[0], bytes("two"));
        check(answer.bytes().equals(text("onetwo")) && answer.node() != 0, "echoed");
        check("UnknownService".equals(refused(() -> client.ask("nobody", 0, 10, Duration.ofSeconds(1)))), "nobody");
        try (Mailbox inbox = node.mailbox("java in"); Mailbox outbox = node.mailbox("java out")) {
            check(inbox.receive(Duration.ofMillis(1)) == null, "nothing came");
            node.sendShort("java out", "java in", bytes("a"), new byte[0]);
            try (Message message = inbox.receive(TIME)) {
                check(message.from().equals("java out") && message.node() == node.id() && message.items().size() == 2, "it says whose it is");
            }
            try (Segment own = node.export("catalogue", 100_000, 0)) {
                own.write(50_000, text("middle"));
                Mailbox.Part part = new Mailbox.Part(own, 50_000, 1_000);
                try (Mailbox.Sent sent = outbox.sendLong("java in", List.of(bytes("head")), List.of(part), TIME)) {
                    Message message = inbox.receive(TIME);
                    ByteBuffer read = ByteBuffer.allocateDirect(6);
                    message.read(0, 0, read);
                    check(message.buffers() == 1 && message.bufferBytes(0) == 1_000 && read.flip().equals(text("middle")), "where it lies");
                    message.close();
                    sent.await();
                }
            }
            Thread answering = new Thread(() -> {
                try (Message message = inbox.receive(TIME)) {
                    message.answer(ByteBuffer.wrap(new byte[50_000]));
                }
            });
            answering.start();
            check(node.ask("java in", 1 << 20, 1 << 20, TIME).bytes().remaining() == 50_000, "into the return buffer");
            answering.join();
        }
    }

    private static void wrong(Node node, Client client) {
        Segment segment = node.export("wrong", 8, 0);
        check(refused(() -> segment.read(1, ByteBuffer.allocate(8))) != null, "beyond its end");
        check(refused(() -> node.export("wrong", 1L << 62, 0)) != null, "too large");
        segment.close();
        segment.close();
        check("BadHandle".equals(refused(() -> segment.read(0, ByteBuffer.allocate(1)))), "closed");
        check("BadHandle".equals(refused(() -> segment.map(false))), "closed");
        check(refused(() -> client.importSegment("nobody at all/x")) != null, "nobody");
        check(refused(() -> Client.connect("c", "127.0.0.1:1")) != null, "nobody listens");
    }

    private static void apart(String address) {
        try (Client apart = Client.connectApart("apart", address); Segment far = apart.importSegment(address + "/shared")) {
            check("NoRight".equals(refused(() -> far.map(false))), "nothing to map");
            ByteBuffer read = ByteBuffer.allocate(9);
            far.read(0, read);
            check(read.flip().equals(text("from rust")), "and everything else is the same");
        }
    }

    private static String refused(Runnable work) {
        try {
            work.run();
            return null;
        } catch (CatenaException why) {
            return why.name();
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static ByteBuffer text(String text) {
        return ByteBuffer.wrap(bytes(text));
    }
}
