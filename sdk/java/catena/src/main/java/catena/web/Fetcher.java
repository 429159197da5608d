package catena.web;

import catena.CatenaException;
import catena.Party;
import catena.Party.Answer;
import catena.Segment;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A client of web servers behind service IDs. What lies in memory that is shared is not copied. */
public final class Fetcher implements AutoCloseable {
    private static final Duration TIME = Duration.ofSeconds(40);
    private static final int ASKED_BYTES_MAX = 10 << 10;
    private static final long HEAD_BYTES_MAX = 256 << 10;
    private static final Pattern HEAD = Pattern.compile("(?s)HTTP/1\\.[01] [1-9][0-9]{2}.*");
    private static final Pattern LENGTH = Pattern.compile("(?i)\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n");
    /** Of a body whose length is not declared. */
    private static final long UNDECLARED = Long.MAX_VALUE;
    /** Segments that stay imported. */
    private static final int IMPORTS_MAX = 256;
    private final Party party;
    private final Map<String, Import> imports = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Import> eldest) {
            if (size() <= IMPORTS_MAX) {
                return false;
            }
            eldest.getValue().segment.close();
            return true;
        }
    };

    /** Fetches by this client or node. */
    public Fetcher(Party party) {
        this.party = party;
    }

    /**
     * Fetches from the server behind the service ID {@code site}.
     *
     * @param head as HTTP/1.1 has it: the first line, fields, and an empty line, of 10 KiB at most
     * @param bytesMax bytes of the response's body, at most
     * @throws IOException the body broke off, is too large, or the server does not keep to what is agreed
     */
    public Response fetch(String site, String head, int bytesMax) throws IOException {
        byte[] asked = head.getBytes(StandardCharsets.ISO_8859_1);
        if (asked.length > ASKED_BYTES_MAX) {
            throw new IOException("the head of the request has " + asked.length + " bytes, and " + ASKED_BYTES_MAX + " are taken at most");
        }
        Answer answer = party.ask(site, 0, HEAD_BYTES_MAX + Frames.PART_BYTES_MAX, TIME, "F".getBytes(StandardCharsets.US_ASCII), asked);
        ByteBuffer frame = Frames.little(answer.bytes());
        require(frame.remaining() >= 5, "its answer is none");
        int place = frame.get();
        int count = frame.getInt();
        require(count >= 0 && count <= frame.remaining(), "its answer is none");
        byte[] came = new byte[count];
        frame.get(came);
        String text = new String(came, StandardCharsets.ISO_8859_1);
        require(HEAD.matcher(text).matches(), "its head is none");
        int status = Integer.parseInt(text.substring(9, 12));
        // These declare the length of a body that they do not have (RFC 9110, section 8.6).
        long declared = head.startsWith("HEAD ") || status == 304 ? UNDECLARED : declared(text);
        ByteBuffer body = switch (place) {
            case Frames.HERE -> frame.slice();
            case Frames.LIES -> lying(frame, answer.node(), bytesMax);
            case Frames.PULLED, Frames.BEGUN -> pulled(site, answer.node(), frame, place == Frames.BEGUN, declared, bytesMax);
            default -> throw new IOException("the server is at fault: its answer is none");
        };
        if (declared != UNDECLARED && body.remaining() != declared) {
            throw new IOException("the head declares a body of " + declared + " bytes, and " + body.remaining() + " came");
        }
        return new Response(status, text, body);
    }

    private static long declared(String head) {
        Matcher length = LENGTH.matcher(head);
        return length.find() ? Long.parseLong(length.group(1)) : UNDECLARED;
    }

    /** Bytes where they lie, if their memory is shared with this process; else a copy. */
    private ByteBuffer lying(ByteBuffer range, long node, int bytesMax) throws IOException {
        require(range.remaining() > 16, "it does not say where its body lies");
        long offset = range.getLong();
        long bytes = range.getLong();
        if (bytes > bytesMax) {
            throw new IOException("the body has more than " + bytesMax + " bytes");
        }
        Import far = imported(StandardCharsets.UTF_8.decode(range).toString(), node);
        require(offset >= 0 && bytes >= 0 && offset <= far.bytes - bytes, "it tells of bytes beyond its segment");
        if (far.seen != null) {
            return far.seen.slice((int) offset, (int) bytes);
        }
        ByteBuffer copy = ByteBuffer.allocateDirect((int) bytes);
        far.segment.read(offset, copy);
        return copy.flip();
    }

    private synchronized Import imported(String name, long node) throws IOException {
        Import kept = imports.get(name);
        if (kept == null || !kept.isCurrent()) {
            Segment segment = party.importSegment(name);
            if (kept != null) {
                kept.segment.close();
            }
            kept = new Import(segment);
            imports.put(name, kept);
        }
        // A server is not to have its clients read elsewhere.
        require(node != 0 && kept.owner == node, "it tells of a segment that is another node's");
        return kept;
    }

    /** A body by the number that is next in this frame, of which the first part may follow; no more of it than the part with which it is longer than declared. */
    private ByteBuffer pulled(String site, long from, ByteBuffer frame, boolean begun, long declared, int bytesMax) throws IOException {
        require(frame.remaining() >= 8, "a body has no number");
        byte[] item = Frames.little(ByteBuffer.allocate(8)).putLong(frame.getLong()).array();
        ByteBuffer whole = ByteBuffer.allocate(Math.min(bytesMax, Frames.PART_BYTES_MAX));
        long node = from;
        boolean asks = !begun;
        try {
            for (boolean last = false; !last && whole.position() <= declared; asks = true) {
                if (asks) {
                    Answer answer = party.ask(site, 0, Frames.PART_BYTES_MAX + 1L, TIME, "N".getBytes(StandardCharsets.US_ASCII), item);
                    frame = Frames.little(answer.bytes());
                    node = answer.node();
                }
                require(frame.hasRemaining(), "a part of its body is none");
                int kind = frame.get();
                if (kind == Frames.PART_FAILED) {
                    throw new EOFException("the body broke off: " + StandardCharsets.UTF_8.decode(frame));
                }
                require(kind >= 0 && kind < Frames.PART_FAILED, "a part of its body is none");
                last = (kind & Frames.PART_LAST) != 0;
                ByteBuffer part = kind >= Frames.PART_LIES ? lying(frame, node, bytesMax) : frame;
                if (part.remaining() > bytesMax - whole.position()) {
                    throw new IOException("the body has more than " + bytesMax + " bytes");
                }
                if (part.remaining() > whole.remaining()) {
                    int more = (int) Math.min(bytesMax, 2L * whole.capacity() + part.remaining());
                    whole = ByteBuffer.allocate(more).put(whole.flip());
                }
                whole.put(part);
            }
        } finally {
            party.sendShort("", site, "L".getBytes(StandardCharsets.US_ASCII), item);
        }
        return whole.flip();
    }

    private static void require(boolean holds, String why) throws IOException {
        if (!holds) {
            throw new IOException("the server is at fault: " + why);
        }
    }

    /** Lets go of what is imported. Bodies that were fetched stay as long as they are used. */
    @Override
    public synchronized void close() {
        imports.values().forEach(far -> far.segment.close());
        imports.clear();
    }

    /**
     * A response.
     *
     * @param status as 200
     * @param head all of it, as it came
     * @param body where it lies, or a copy; for reading
     */
    public record Response(int status, String head, ByteBuffer body) {}

    /** A segment that stays imported, and its pages where they are shared. */
    private static final class Import {
        private final Segment segment;
        private final long owner;
        private final long bytes;
        private final catena.Mapping map;
        private final ByteBuffer seen;

        Import(Segment segment) {
            this.segment = segment;
            this.owner = segment.owner();
            this.bytes = segment.bytes();
            this.map = mapped(segment, bytes);
            this.seen = map == null ? null : map.buffer();
        }

        private static catena.Mapping mapped(Segment segment, long bytes) {
            // No ByteBuffer is longer: it is read like one whose memory is not shared.
            if (bytes > Integer.MAX_VALUE) {
                return null;
            }
            try {
                return segment.map(false);
            } catch (CatenaException notShared) {
                return null;
            }
        }

        boolean isCurrent() {
            return map == null || map.isCurrent();
        }
    }
}
