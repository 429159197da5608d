package catena.web;

import java.nio.ByteBuffer;

/** A segment in which content lies. */
public interface Lying {
    /** {@code OWNER/NAME}, as it is imported. */
    byte[] name();

    /** Where in the segment a buffer's next byte lies. */
    long offset(ByteBuffer content);

    /** Whether it stays as it is for as long as it is held: else it is taken from who fills it when it is sent. */
    boolean isKept();

    /** Holds what is kept; or takes it from who fills it. False: it cannot be had, and its bytes are to be copied. */
    boolean take();

    /** Lets go of it; {@code read}: nobody reads there any more, so it may be used again. */
    void done(boolean read);
}
