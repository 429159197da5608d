//! The gateway: listens, and lets connections in, within bounds.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use catena::Client;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{
    blobs::Blobs,
    charge::Memory,
    door::Door,
    files::Files,
    limits::{LimitError, Limits},
    offer::{Named, Offer},
    origins::{Origin, Origins},
    pace::Paced,
    visitors::{Pass, Visitors, What},
};

/// Headers of a request, at most.
const HEADERS_MAX: usize = 64;
/// hyper's own buffers for one connection, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How long to wait when the system has no socket for the next connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Sent to a connection that is not let in, if that is possible without waiting.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
    {\"status\":503,\"title\":\"Service Unavailable\",\"name\":\"Overloaded\",\"detail\":\"too many connections (connections_max, connections_per_address_max)\",\"fault\":\"node\",\"help\":\"close some, or try again in a moment\"}";

/// The configuration of a gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens, `HOST:PORT`; port 0 lets the system choose.
    pub listen: String,
    /// What browsers may call. Nothing else is there for them.
    pub offers: Vec<Offer>,
    /// What browsers may run as chains.
    pub functions: Vec<Named>,
    /// Whose pages may ask, besides the gateway's own.
    pub origins: Vec<Origin>,
    /// Names under which browsers reach it, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// A folder of files for everybody.
    pub files: Option<PathBuf>,
    /// Every bound.
    pub limits: Limits,
}

impl Default for Config {
    /// On a loopback port that the system chooses; offers nothing to anybody.
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            offers: Vec::new(),
            functions: Vec::new(),
            origins: Vec::new(),
            hosts: Vec::new(),
            files: None,
            limits: Limits::default(),
        }
    }
}

/// Why a gateway did not open.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, io::Error),
    /// The folder of files cannot be opened.
    #[error("the folder {path}: {why}", path = .0.display(), why = .1)]
    Files(PathBuf, io::Error),
    /// Two functions have one name.
    #[error("two functions are called {0:?}; give each a name of its own")]
    Twice(String),
    /// The limits do not go together.
    #[error(transparent)]
    Limits(#[from] LimitError),
}

/// A gateway that is open. Dropping it closes it at once.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    visitors: Visitors,
    closing: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Gateway {
    /// Opens a gateway. `client` makes the calls that browsers ask for.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn open(client: Client, config: Config) -> Result<Self, GatewayError> {
        config.limits.check()?;
        for (index, named) in config.functions.iter().enumerate() {
            if config.functions[..index].iter().any(|other| other.name == named.name) {
                return Err(GatewayError::Twice(named.name.clone()));
            }
        }
        let failed = |why| GatewayError::Listen(config.listen.clone(), why);
        let listener = TcpListener::bind(&config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let files = config.files.map(|path| Files::open(&path).map_err(|why| GatewayError::Files(path, why)));
        let visitors = Visitors::default();
        let limits = Arc::new(config.limits);
        let door = Arc::new(Door {
            blobs: Arc::new(Blobs::new(client.clone(), Arc::clone(&limits))),
            client,
            offers: config.offers,
            functions: config.functions,
            origins: Origins { origins: config.origins, hosts: config.hosts },
            files: files.transpose()?,
            memory: Memory::new(limits.memory_bytes_max),
            limits,
            visitors: visitors.clone(),
        });
        let (closing, closes) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, door, closes));
        Ok(Self { address, visitors, closing, serving })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections, and calls and chains under way.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.visitors.count(What::Connection), self.visitors.count(What::Stream))
    }

    /// Accepts nothing new, waits up to `grace` for what is under way, and ends the rest.
    pub async fn close(mut self, grace: Duration) {
        self.closing.send_replace(true);
        let _ = tokio::time::timeout(grace, &mut self.serving).await;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Runs until the gateway closes and every connection is done. Its connections end with it.
async fn serve(listener: TcpListener, door: Arc<Door>, mut closes: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let room = Arc::new(Semaphore::new(door.limits.connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closed(&mut closes) => break,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, from) = match accepted {
            Ok((stream, from)) => (stream, from.ip()),
            Err(why) => {
                tracing::warn!(%why, "no connection to be had");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let pass = door.visitors.enter(from, What::Connection, door.limits.connections_per_address_max);
        match (Arc::clone(&room).try_acquire_owned(), pass) {
            (Ok(place), Some(pass)) => {
                let (door, closes) = (Arc::clone(&door), closes.clone());
                connections.spawn(async move {
                    connection(stream, from, door, closes, pass).await;
                    drop(place);
                });
            }
            _ => drop(stream.try_write(FULL)),
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits until the gateway closes, or is gone.
async fn closed(closes: &mut watch::Receiver<bool>) {
    let _ = closes.wait_for(|closing| *closing).await;
}

async fn connection(stream: TcpStream, from: IpAddr, door: Arc<Door>, mut closes: watch::Receiver<bool>, _pass: Pass) {
    // Each reply is sent as soon as it comes, however small it is.
    let _ = stream.set_nodelay(true);
    let limits = Arc::clone(&door.limits);
    let stream = TokioIo::new(Paced::new(stream, limits.write_timeout()));
    let answering = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, std::convert::Infallible>(door.answer(request, from).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout()).max_headers(HEADERS_MAX);
    http.max_header_size(limits.head_bytes_max).max_buf_size(BUFFER_BYTES_MAX.max(limits.head_bytes_max));
    let mut connection = pin!(http.serve_connection(stream, answering));
    let done = tokio::select! {
        done = connection.as_mut() => Some(done),
        () = closed(&mut closes) => None,
    };
    let done = match done {
        Some(done) => done,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(why) = done {
        // Browsers may leave at any time.
        tracing::debug!(%from, %why, "a connection ended");
    }
}
