//! The floor: a ring of four servers that pass 64 bytes on over raw tokio TCP.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{Failure, server::Server};

/// Bytes that go round: about what a hop's head takes.
const MESSAGE_BYTES: usize = 64;

pub(crate) struct Ring {
    first: TcpStream,
    last: TcpStream,
}

impl Ring {
    /// The ring, and its servers, which are to be held.
    pub(crate) async fn start() -> Result<(Self, Vec<Server>), Failure> {
        let home = TcpListener::bind("127.0.0.1:0").await?;
        let mut next = home.local_addr()?.to_string();
        let mut servers = Vec::new();
        for _ in 0..4 {
            let server = Server::start(&["ring", &next]).await?;
            next.clone_from(&server.address);
            servers.push(server);
        }
        let first = TcpStream::connect(&next).await?;
        first.set_nodelay(true)?;
        let (last, _) = home.accept().await?;
        Ok((Self { first, last }, servers))
    }

    pub(crate) async fn round(&mut self) -> Result<(), Failure> {
        let mut message = [7; MESSAGE_BYTES];
        self.first.write_all(&message).await?;
        self.last.read_exact(&mut message).await?;
        Ok(())
    }
}

/// Passes on what it gets; says where it listens.
pub(crate) async fn pass_on(next: SocketAddr) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let here = listener.local_addr()?;
    let mut out = TcpStream::connect(next).await?;
    out.set_nodelay(true)?;
    tokio::spawn(async move {
        let Ok((mut incoming, _)) = listener.accept().await else { return };
        let mut message = [0; MESSAGE_BYTES];
        while incoming.read_exact(&mut message).await.is_ok() && out.write_all(&message).await.is_ok() {}
    });
    Ok(here)
}
