package catena;

/** What went wrong: the message says what happened, to what, and what to do next. */
public final class CatenaException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int code;
    private final String name;
    private final boolean unknown;

    CatenaException(int code, String name, String message, boolean unknown) {
        super(name + ": " + message);
        this.code = code;
        this.name = name;
        this.unknown = unknown;
    }

    /** The C interface's code. */
    public int code() {
        return code;
    }

    /** The exception's name, for programs: as {@code UnknownSegment}. */
    public String name() {
        return name;
    }

    /** Whether it is unknown if the thing was done. */
    public boolean isUnknown() {
        return unknown;
    }
}
