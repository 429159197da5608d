package catena;

import com.sun.jna.ptr.LongByReference;
import java.util.function.ToIntFunction;

/** Something that the C interface holds, until it is closed. What is used after that is refused as {@code BadHandle}. */
public abstract class Handle implements AutoCloseable {
    final long number;

    Handle(long number) {
        this.number = number;
    }

    /** The number that a function of the C interface gives. */
    static long given(ToIntFunction<LongByReference> call) {
        LongByReference out = new LongByReference();
        C.check(call.applyAsInt(out));
        return out.getValue();
    }

    /** Lets go of it. A second time does nothing. */
    @Override
    public void close() {
        // The one way in which it fails is that it was closed before.
        C.catena_close(number);
    }
}
