//! What carries the bytes.
//!
//! A [`Transport`] dials and listens; it gives a [`Connection`]: two byte streams, one each way, reliable and in order. [`Tcp`] ships, and
//! [`crate::near::Near`], which uses TCP to other hosts.
//!
//! Where the others fit:
//!
//! - **TLS**: a transport around [`Tcp`] whose `dial` and [`Opening`] run the handshake, and which gives the two halves
//!   of `tokio::io::split` on the encrypted stream. The link flushes after each batch, so a stream may buffer. The peer's
//!   proven name belongs in [`Connection::peer`].
//! - **Shared memory**: the two halves of a pair of rings; a doorbell wakes the reader. The framing stays: 16 bytes per
//!   message cost less than a second protocol.
//! - **QUIC**: as a first step one bidirectional stream is a [`Connection`], and everything holds but loss isolation. To
//!   have that too, give one stream to each [`crate::Lane`]: a connection then has three pairs of halves, the link's
//!   egress one writer per lane, and its reader task one loop per stream; frames, outbox and API do not change.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use async_trait::async_trait;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, lookup_host};

/// A reliable byte stream each way.
pub struct Connection {
    /// Bytes from the peer.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Bytes to the peer. Vectored writes are used; shutting down must let the peer read to the end.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The peer's address, for people.
    pub peer: String,
    /// The host from which the peer's bytes come, over a network. `None` for a process on this machine that connects in a way that others cannot use.
    pub host: Option<IpAddr>,
}

/// A connection whose handshake may still be under way. Runs within `hello_timeout_ms`, beside the accept loop.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send>>;

/// Dials and listens.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Connects to `address` (`host:port`). The caller bounds the time.
    async fn dial(&self, address: &str) -> io::Result<Connection>;

    /// Listens on `address`; port 0 lets the system choose.
    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>>;
}

/// Accepts callers.
#[async_trait]
pub trait Listener: Send + 'static {
    /// Where it listens.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// The next caller, and the caller's address. Must be cancel-safe, and must not wait for the caller's handshake.
    async fn accept(&mut self) -> io::Result<(String, Opening)>;
}

/// Plain TCP, without delay (`TCP_NODELAY`).
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Bytes that the kernel accepts ahead of what it has sent (`TCP_NOTSENT_LOWAT`, Linux). Small, because control cannot overtake what the kernel already
    /// has. Default 64 KiB: half a millisecond at 1 Gbit/s.
    pub unsent_bytes_max: u32,
}

impl Default for Tcp {
    fn default() -> Self {
        Self { unsent_bytes_max: 64 << 10 }
    }
}

impl Tcp {
    /// Connects to the first of these addresses that answers; all are `peer`'s.
    pub(crate) async fn connect(&self, found: &[SocketAddr], peer: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(found).await?;
        Self::connection(stream, peer.to_owned(), self.unsent_bytes_max)
    }

    fn connection(stream: TcpStream, peer: String, unsent_bytes_max: u32) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        #[cfg(target_os = "linux")]
        SockRef::from(&stream).set_tcp_notsent_lowat(unsent_bytes_max)?;
        let host = Some(stream.peer_addr()?.ip());
        let (reader, writer) = stream.into_split();
        Ok(Connection { reader: Box::new(reader), writer: Box::new(writer), peer, host })
    }
}

#[async_trait]
impl Transport for Tcp {
    async fn dial(&self, address: &str) -> io::Result<Connection> {
        let found: Vec<_> = lookup_host(address).await?.collect();
        self.connect(&found, address).await
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let listener = TcpListener::bind(address).await?;
        Ok(Box::new(TcpCallers { listener, unsent_bytes_max: self.unsent_bytes_max }))
    }
}

struct TcpCallers {
    listener: TcpListener,
    unsent_bytes_max: u32,
}

#[async_trait]
impl Listener for TcpCallers {
    fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    async fn accept(&mut self) -> io::Result<(String, Opening)> {
        let (stream, address) = self.listener.accept().await?;
        let (peer, unsent_bytes_max) = (address.to_string(), self.unsent_bytes_max);
        let connection = Tcp::connection(stream, peer.clone(), unsent_bytes_max);
        Ok((peer, Box::pin(std::future::ready(connection))))
    }
}
