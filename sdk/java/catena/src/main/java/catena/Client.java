package catena;

/** A client: it listens nowhere, and reaches all that the node knows of which it is connected to. */
public final class Client extends Party {
    private Client(long number) {
        super(number);
    }

    /** Connects to a node, by its address. */
    public static Client connect(String name, String address) {
        return connect(name, address, 0);
    }

    /** The same, sharing no memory with others on this host: for tests and comparisons. */
    public static Client connectApart(String name, String address) {
        return connect(name, address, WITHOUT_SHARED_MEMORY);
    }

    private static Client connect(String name, String address, int flags) {
        return new Client(given(client -> C.catena_client_connect(name, address, flags, client)));
    }
}
