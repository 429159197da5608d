package catena.jetty;

import catena.Node;
import java.time.Duration;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.http.content.PreCompressedHttpContentFactory;
import org.eclipse.jetty.http.content.ResourceHttpContentFactory;
import org.eclipse.jetty.http.content.ValidatingCachingHttpContentFactory;
import org.eclipse.jetty.http.content.VirtualHttpContentFactory;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.server.handler.ResourceHandler;

/** Jetty's handler of files, its cache of content in segments: what is kept is sent from where it lies. */
public final class CatenaFiles extends ResourceHandler {
    /** Bytes that are read from a file at one time: a part, as clients take it. */
    private static final int PART_BYTES = 1 << 20;
    private static final long KEPT_BYTES_MAX = 512L << 20;
    private static final long PARTS_BYTES_MAX = 128L << 20;
    /** As Jetty's own handler has it. */
    private static final Duration BELIEVED = Duration.ofSeconds(1);

    private final SegmentPool kept;
    private final SegmentPool parts;
    private final boolean cached;

    /** Files for a connector of this node; cached or read each time. */
    public CatenaFiles(Node node, boolean cached) {
        this.kept = new SegmentPool(node, false, KEPT_BYTES_MAX);
        this.parts = new SegmentPool(node, true, PARTS_BYTES_MAX);
        this.cached = cached;
    }

    SegmentPool[] pools() {
        return new SegmentPool[] {kept, parts};
    }

    @Override
    protected HttpContent.Factory newHttpContentFactory(ByteBufferPool.Sized ignored) {
        ByteBufferPool.Sized reading = new ByteBufferPool.Sized(parts, true, PART_BYTES);
        ByteBufferPool.Sized keeping = new ByteBufferPool.Sized(kept, true, PART_BYTES);
        HttpContent.Factory files = new ResourceHttpContentFactory(getBaseResource(), getMimeTypes(), reading);
        files = new VirtualHttpContentFactory(files, getStyleSheet(), "text/css", keeping);
        files = new PreCompressedHttpContentFactory(files, getPrecompressedFormats());
        return cached ? new ValidatingCachingHttpContentFactory(files, BELIEVED.toMillis(), keeping) : files;
    }
}
