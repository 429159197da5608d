//! Links between nodes of one host, by a Unix socket: a message takes two thirds to four fifths of the time that it takes by TCP.
//!
//! A node that listens at a port also listens at an abstract socket named after the port. A node that dials an address of its own host tries that first, and
//! TCP if nobody trustworthy is there. Abstract names belong to a network namespace, as ports do: what is behind a forwarded port is not reached by name.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use async_trait::async_trait;
use tokio::net::{UnixListener, UnixStream, lookup_host};

use crate::transport::{Connection, Listener, Opening, Tcp, Transport};

/// The address given to an accepted peer: it is on this host, and has no port.
const PEER: &str = "127.0.0.1:0";
/// The user whose sockets everybody may trust.
const ROOT: u32 = 0;

/// TCP, and Unix sockets between nodes of one host.
#[derive(Clone, Debug, Default)]
pub struct Near(pub Tcp);

#[async_trait]
impl Transport for Near {
    async fn dial(&self, address: &str) -> io::Result<Connection> {
        let found: Vec<_> = lookup_host(address).await?.collect();
        for here in found.iter().filter(|address| is_of_this_host(address)) {
            if let Some(stream) = connect(here).await {
                return Ok(connection(stream, address.to_owned()));
            }
        }
        self.0.connect(&found, address).await
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let tcp = self.0.listen(address).await?;
        // If the name is taken, everybody comes by TCP.
        let near = UnixListener::bind(name(&tcp.local_address()?)).ok();
        Ok(Box::new(Callers { tcp, near }))
    }
}

struct Callers {
    tcp: Box<dyn Listener>,
    near: Option<UnixListener>,
}

#[async_trait]
impl Listener for Callers {
    fn local_address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_address()
    }

    async fn accept(&mut self) -> io::Result<(String, Opening)> {
        let Some(near) = &self.near else { return self.tcp.accept().await };
        tokio::select! {
            caller = self.tcp.accept() => caller,
            caller = near.accept() => {
                let (stream, _) = caller?;
                let opened = Ok(connection(stream, PEER.to_owned()));
                Ok((PEER.to_owned(), Box::pin(std::future::ready(opened))))
            }
        }
    }
}

fn connection(stream: UnixStream, peer: String) -> Connection {
    let host = host_of(is_trustworthy(&stream));
    let (reader, writer) = stream.into_split();
    Connection { reader: Box::new(reader), writer: Box::new(writer), peer, host }
}

/// The abstract name (its first byte is 0) of a node that listens at this address.
fn name(listens: &SocketAddr) -> String {
    format!("\0catena-link-{listens}")
}

/// Whether this address is this host's: what is sent there would be sent from the same address. Nothing is sent to find out.
fn is_of_this_host(address: &SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let own = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        socket.local_addr()
    };
    address.ip().is_loopback() || own().is_ok_and(|own| own.ip() == address.ip())
}

/// Connects to whoever listens at this port of this host: at this address only, or at all addresses.
async fn connect(address: &SocketAddr) -> Option<UnixStream> {
    let all = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
    let names = [*address].into_iter().chain(all.map(|ip| SocketAddr::new(ip, address.port())));
    for name in names.map(|listens| name(&listens)) {
        if let Ok(stream) = UnixStream::connect(name).await
            && is_trustworthy(&stream)
        {
            return Some(stream);
        }
    }
    None
}

/// Processes of other users are taken for one host, as if they came by TCP: each chooses its node's number itself.
fn host_of(trustworthy: bool) -> Option<IpAddr> {
    (!trustworthy).then_some(Ipv4Addr::LOCALHOST.into())
}

/// Needed since anybody may take a name, even one with a port that belongs to somebody else.
fn is_trustworthy(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| is_trusted(peer.uid(), rustix::process::geteuid().as_raw()))
}

fn is_trusted(peer: u32, own: u32) -> bool {
    peer == own || peer == ROOT
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{connection, host_of, is_of_this_host, is_trusted};

    #[test]
    fn the_same_user_and_root_are_trusted_and_nobody_else() {
        for (peer, own, trusted) in [(1_000, 1_000, true), (0, 1_000, true), (1_001, 1_000, false), (1_000, 0, false)] {
            assert_eq!(is_trusted(peer, own), trusted, "{peer} by {own}");
        }
    }

    #[tokio::test]
    async fn processes_of_other_users_are_one_host_and_those_of_the_same_user_are_none() {
        let (stream, _peer) = tokio::net::UnixStream::pair().unwrap();
        assert_eq!(connection(stream, String::new()).host, None);
        assert_eq!(host_of(false), Some("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn loopback_is_of_this_host_and_an_address_for_examples_is_not() {
        for (address, here) in
            [("127.0.0.1:7", true), ("[::1]:7", true), ("192.0.2.1:7", false), ("[2001:db8::1]:7", false)]
        {
            assert_eq!(is_of_this_host(&address.parse().unwrap()), here, "{address}");
        }
    }
}
