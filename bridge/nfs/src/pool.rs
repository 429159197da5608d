//! Connections to one server: opened when needed, kept while they work, never more than the configuration allows.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use catena_files::Gate;
use catena_files::limits::WAITING_CALLS_MAX;
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use crate::config::NfsConfig;
use crate::stream::RecordStream;

/// Ports tried as the near end of a connection, when the server wants a privileged one.
const PRIVILEGED_PORTS: std::ops::RangeInclusive<u16> = 512..=1023;

/// Where and how to connect.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    host: String,
    privileged_port: bool,
    timeout: Duration,
}

impl Dialer {
    pub(crate) fn new(config: &NfsConfig) -> Self {
        Self {
            host: config.host.clone(),
            privileged_port: config.privileged_port,
            timeout: Duration::from_millis(config.connect_timeout_ms),
        }
    }

    /// Host and port, for messages.
    pub(crate) fn server(&self, port: u16) -> String {
        format!("{}:{port}", self.host)
    }

    /// Connects to one of the host's addresses. The name is resolved anew each time, because a server may move.
    pub(crate) async fn connect(&self, port: u16) -> Result<RecordStream> {
        let late = |_| Error::new(ErrorKind::TimedOut, format!("no connection within {} ms", self.timeout.as_millis()));
        tokio::time::timeout(self.timeout, self.connect_any(port)).await.map_err(late)?
    }

    async fn connect_any(&self, port: u16) -> Result<RecordStream> {
        let mut last = Error::new(ErrorKind::NotFound, "the host has no address");
        for address in lookup_host((self.host.as_str(), port)).await? {
            let connected = match self.privileged_port {
                true => connect_privileged(address).await,
                false => TcpStream::connect(address).await,
            };
            match connected {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    return Ok(RecordStream::new(tcp));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Connects from the highest port below 1024 that is free for this server.
async fn connect_privileged(address: SocketAddr) -> Result<TcpStream> {
    for port in PRIVILEGED_PORTS.rev() {
        let (socket, near) = match address {
            SocketAddr::V4(_) => (TcpSocket::new_v4()?, SocketAddr::from(([0, 0, 0, 0], port))),
            SocketAddr::V6(_) => (TcpSocket::new_v6()?, SocketAddr::from(([0u16; 8], port))),
        };
        match socket.bind(near) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => continue,
            bound => bound?,
        }
        match socket.connect(address).await {
            // The port is free, but was used for this very server a moment ago.
            Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
            connected => return connected,
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, "no privileged port is free"))
}

/// The connections of one server's NFS port.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) dialer: Dialer,
    pub(crate) port: u16,
    pub(crate) gate: Gate,
    idle: Mutex<Vec<RecordStream>>,
}

impl Pool {
    pub(crate) fn new(dialer: Dialer, port: u16, connections_max: usize) -> Self {
        Self { dialer, port, gate: Gate::new(connections_max, WAITING_CALLS_MAX), idle: Mutex::new(Vec::new()) }
    }

    /// Host and port, for messages.
    pub(crate) fn server(&self) -> String {
        self.dialer.server(self.port)
    }

    /// An idle connection that still works, or a new one. Its holder has a pass of the gate, so that there are never
    /// more connections than places.
    pub(crate) async fn take(&self) -> Result<RecordStream> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(stream) if stream.is_alive() => return Ok(stream),
                Some(dead) => drop(dead),
                None => return self.dialer.connect(self.port).await,
            }
        }
    }

    /// Keeps a connection whose call is complete. One whose call was dropped or failed is never given back, because the
    /// rest of an answer may be on it.
    pub(crate) fn give_back(&self, stream: RecordStream) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }
}
