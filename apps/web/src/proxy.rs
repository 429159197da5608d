//! The client as an HTTP server on loopback: whatever speaks HTTP, a browser or curl, reaches a service behind a service ID.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use catena::exceptions as names;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
};

use crate::{
    body::FetchBody,
    fetch::{FetchError, Fetcher},
    limits::ProxyLimits,
};

/// Header fields of a request, at most.
const FIELDS_MAX: usize = 96;
/// hyper's own buffers for one connection, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Why a proxy did not open.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Nobody can listen there.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, io::Error),
    /// Others could reach it.
    #[error("{0} is no address of loopback: the proxy acts as whoever runs it, so it serves this machine alone")]
    NotLoopback(SocketAddr),
}

type Reply = Response<Either<FetchBody, Full<Bytes>>>;

struct Door {
    fetcher: Fetcher,
    site: String,
    limits: ProxyLimits,
}

/// An HTTP server on loopback that has everything fetched from one site. Dropped, it closes.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Opens it at a `HOST:PORT` of loopback; port 0 lets the system choose.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub async fn open(fetcher: Fetcher, site: &str, listen: &str, limits: ProxyLimits) -> Result<Self, ProxyError> {
        let failed = |why| ProxyError::Listen(listen.to_owned(), why);
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if !address.ip().is_loopback() {
            return Err(ProxyError::NotLoopback(address));
        }
        let door = Arc::new(Door { fetcher, site: site.to_owned(), limits });
        Ok(Self { address, serving: tokio::spawn(serve(listener, door)) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, door: Arc<Door>) {
    let room = Arc::new(Semaphore::new(door.limits.connections_max));
    let mut connections = JoinSet::new();
    // Connections beyond the bound wait in the system's own queue.
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let door = Arc::clone(&door);
                connections.spawn(async move {
                    connection(stream, door).await;
                    drop(place);
                });
            }
            Err(why) => {
                tracing::warn!(%why, "no connection to be had");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, door: Arc<Door>) {
    let _ = stream.set_nodelay(true);
    let limits = door.limits.clone();
    let stream = TokioIo::new(catena_gateway::Paced::new(stream, limits.write_time_max));
    let answering = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_time_max).max_headers(FIELDS_MAX);
    http.max_buf_size(BUFFER_BYTES_MAX);
    if let Err(why) = http.serve_connection(stream, answering).await {
        tracing::debug!(%why, "a connection ended");
    }
}

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if !is_loopback(&request) {
            // DNS rebinding: a foreign page whose host name now resolves to this address must not read what this machine's user may.
            let text = "the proxy answers to localhost, 127.0.0.1 and [::1]";
            return told(StatusCode::MISDIRECTED_REQUEST, text.to_owned());
        }
        let (mut parts, body) = request.into_parts();
        let body = match self.taken(body).await {
            Ok(body) => body,
            Err((status, text)) => return told(status, text),
        };
        of_connection(&mut parts.headers);
        match self.fetcher.fetch(&self.site, Request::from_parts(parts, body)).await {
            Ok(mut response) => {
                of_connection(response.headers_mut());
                response.map(Either::Left)
            }
            Err(why) => told(status(&why), why.to_string()),
        }
    }
}

impl Door {
    /// All of a request's body, in its time.
    async fn taken(&self, body: Incoming) -> Result<Bytes, (StatusCode, String)> {
        let ProxyLimits { request_bytes_max, request_time_max, .. } = self.limits;
        let too_large = || (StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {request_bytes_max} bytes"));
        // A body that declares too great a length is refused without reading it.
        if body.size_hint().lower() > request_bytes_max as u64 {
            return Err(too_large());
        }
        match tokio::time::timeout(request_time_max, Limited::new(body, request_bytes_max).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(why)) if why.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(why)) => Err((StatusCode::BAD_REQUEST, format!("the body broke off: {why}"))),
            Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not come in its time".to_owned())),
        }
    }
}

fn is_loopback<B>(request: &Request<B>) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host =
        host.map(|host| host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(host, |(host, _)| host));
    host.is_none_or(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host))
}

/// Removes the fields that concern only one connection (RFC 9110, section 7.6.1).
fn of_connection(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    let always = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    let known = ["keep-alive", "proxy-connection", "proxy-authorization"].map(HeaderName::from_static);
    for name in always.into_iter().chain(known).chain(named) {
        headers.remove(name);
    }
}

/// The HTTP status that says whose fault it is.
fn status(why: &FetchError) -> StatusCode {
    match why {
        FetchError::HeadTooLarge { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        FetchError::Exception(why) => match why.name.as_str() {
            names::DEADLINE_EXCEEDED | names::OWNER_SILENT => StatusCode::GATEWAY_TIMEOUT,
            names::OVERLOADED => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        },
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn told(status: StatusCode, text: String) -> Reply {
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text + "\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
