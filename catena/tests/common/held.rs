//! A TCP port for a server that starts later, or never.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// Bound and not listened on: while it lives, the system gives the port to nobody who asks for any, whoever connects to it is refused, and a server
/// told to listen there can (both ends allow the address to be used again, as servers do).
pub(crate) struct HeldPort {
    _socket: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl HeldPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = socket.local_addr().unwrap();
        Self { _socket: socket, address }
    }
}
