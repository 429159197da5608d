package catena.jetty;

import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.eclipse.jetty.http.HostPortHttpField;
import org.eclipse.jetty.http.HttpException;
import org.eclipse.jetty.http.HttpField;
import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.HttpURI;
import org.eclipse.jetty.http.HttpVersion;
import org.eclipse.jetty.http.MetaData;

/** A request's head: as HTTP/1.1 has it (RFC 9112), but that it need not name a host, having come by a service ID. */
final class Head {
    private static final int FIELDS_MAX = 96;
    private static final String TOKEN = "([!#$%&'*+.^_`|~0-9A-Za-z-]+)";
    private static final Pattern LINE = Pattern.compile(TOKEN + " ([!-~]+) HTTP/1\\.[01]");
    private static final Pattern FIELD = Pattern.compile(TOKEN + ":[ \t]*([\t -~\u0080-\u00ff]*?)[ \t]*");

    private Head() {}

    /** The request of a head. Throws an {@link HttpException} for what is none. */
    static MetaData.Request parsed(byte[] head, String site, int bodyBytes) {
        String text = new String(head, StandardCharsets.ISO_8859_1);
        require(text.endsWith("\r\n\r\n"), "the head does not end");
        String[] lines = text.substring(0, text.length() - 4).split("\r\n", -1);
        require(lines.length <= FIELDS_MAX + 1, "the head has more than " + FIELDS_MAX + " fields");
        Matcher line = LINE.matcher(lines[0]);
        require(line.matches(), "the request's first line is none of HTTP/1.1");
        HttpFields.Mutable fields = HttpFields.build();
        HostPortHttpField host = new HostPortHttpField("localhost");
        for (int at = 1; at < lines.length; at++) {
            Matcher field = FIELD.matcher(lines[at]);
            require(field.matches(), "field " + at + " of the head is none");
            boolean isHost = HttpHeader.HOST.is(field.group(1));
            host = isHost ? new HostPortHttpField(field.group(2)) : host;
            fields.add(isHost ? host : new HttpField(field.group(1), field.group(2)));
        }
        require(fields.getFields(HttpHeader.HOST).size() <= 1, "the head names several hosts");
        HttpURI.Mutable uri = HttpURI.build(line.group(1), line.group(2)).scheme("http");
        HttpURI whole = (uri.getHost() == null ? uri.authority(host.getHost(), host.getPort()) : uri).asImmutable();
        require(!whole.hasViolations() && whole.getCanonicalPath() != null, "the request's target has two meanings, or none");
        return new MetaData.Request(line.group(1), whole, HttpVersion.HTTP_1_1, fields, bodyBytes);
    }

    private static void require(boolean holds, String why) {
        if (!holds) {
            throw new HttpException.RuntimeException(400, why);
        }
    }
}
