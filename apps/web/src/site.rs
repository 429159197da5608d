//! A service behind a service ID: requests come as messages, and the answers say where the body is.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use catena::{Exception, LogLimit, Mailbox, Node, NodeId, Received, Segment};
use futures_util::FutureExt as _;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Body,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    service::Service,
};
use tokio::task::JoinHandle;

use crate::{
    bodies::{Bodies, BoxError, Failing, HERE_BYTES_MAX, NotBegun, Tally},
    body::Lying,
    frame::{self, Part, Place},
    head,
    limits::Limits,
};

/// How often bodies that nobody asks for are looked for.
const SWEEP: Duration = Duration::from_secs(2);

/// A service that is mounted. Dropped, it takes no more requests.
#[derive(Debug)]
pub struct Mounted {
    serving: JoinHandle<()>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Site<S> {
    service: S,
    limits: Limits,
    bodies: Arc<Bodies>,
    requests: Arc<Tally>,
}

/// Puts a service behind the service ID `name`, so that a [`crate::Fetcher`] finds it wherever it is. A `tower` service, as `axum::Router` is one, comes as
/// `hyper_util::service::TowerToHyperService`.
///
/// A response's body goes with its head if it is small; else its first part does, and the rest is pulled part by part; with a [`Lying`] among its extensions its client reads it from the segment
/// where it lies, and the body itself is not touched.
///
/// # Errors
/// As [`Node::mailbox`].
pub fn mount<S, B>(node: &Node, name: &str, service: S, limits: Limits) -> Result<Mounted, Exception>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mailbox = node.mailbox(name)?;
    let bodies = Bodies::new(node, limits.clone());
    let requests = Tally::new(limits.requests_max, limits.requests_per_client_max);
    let site = Arc::new(Site { service, limits, bodies, requests });
    Ok(Mounted { serving: tokio::spawn(serve(mailbox, site)) })
}

async fn serve<S, B>(mailbox: Mailbox, site: Arc<Site<S>>)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        let message = tokio::select! {
            message = mailbox.receive() => message,
            _ = sweep.tick() => {
                site.bodies.sweep();
                continue;
            }
        };
        if message.items().first().is_some_and(|kind| kind == frame::LEAVE) {
            if let Some(number) = numbered(&message) {
                site.bodies.leave(number, message.node().id);
            }
            continue;
        }
        let site = Arc::clone(&site);
        let mut answering = Box::pin(async move {
            let answer = site.answer(&message).await;
            if let Err(why) = message.answer(answer).await {
                tracing::debug!(%why, "nobody takes a response");
            }
        });
        // What can be answered at once, such as cached content, is not handed to another thread first.
        if answering.as_mut().now_or_never().is_none() {
            tokio::spawn(answering);
        }
    }
}

fn numbered(message: &Received) -> Option<u64> {
    frame::number(message.items().get(1)?)
}

impl<S, B> Site<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    async fn answer(&self, message: &Received) -> Bytes {
        let client = message.node().id;
        let kind = message.items().first().map_or(&b""[..], |kind| kind);
        if kind == frame::NEXT || kind == frame::NEXT_BY_MESSAGE {
            let part = match numbered(message) {
                Some(number) => self.bodies.next(number, client, kind == frame::NEXT).await,
                None => Part::Failed("the question for a part of a body has no number".to_owned()),
            };
            return part.encode();
        }
        let Some(_pass) = self.requests.enter(client) else {
            return told(StatusCode::SERVICE_UNAVAILABLE, "too many requests are under way (requests_max)");
        };
        if kind != frame::FETCH && kind != frame::FETCH_BY_MESSAGE {
            return told(StatusCode::NOT_IMPLEMENTED, "this is a question that the server does not know");
        }
        let request = match self.request(message).await {
            Ok(request) => request,
            Err((status, why)) => return told(status, &why),
        };
        let head_only = request.method() == Method::HEAD;
        match self.served(request).await {
            Ok(response) => self.placed(response, head_only, client, kind == frame::FETCH).await,
            Err(answer) => answer,
        }
    }

    /// The service's response; or an error response to send instead.
    async fn served(&self, request: Request<Full<Bytes>>) -> Result<Response<B>, Bytes> {
        let serving = AssertUnwindSafe(self.service.call(request)).catch_unwind();
        match tokio::time::timeout(self.limits.head_time_max, serving).await {
            Ok(Ok(Ok(response))) => Ok(response),
            Ok(Ok(Err(why))) => Err(failed(&why.into().to_string())),
            Ok(Err(_)) => Err(failed("it panicked")),
            Err(_) => Err(told(StatusCode::SERVICE_UNAVAILABLE, "the service did not answer in time (head_time_max)")),
        }
    }

    async fn request(&self, message: &Received) -> Result<Request<Full<Bytes>>, (StatusCode, String)> {
        let head = message.items().get(1).map_or(&b""[..], |head| head);
        let request = head::to_request(head).map_err(|why| (StatusCode::BAD_REQUEST, why.to_string()))?;
        let body = match message.buffers().first() {
            None => message.items().get(2).cloned().unwrap_or_default(),
            Some(buffer) if buffer.bytes() > self.limits.request_bytes_max => {
                let why = format!("its body has more than {} bytes", self.limits.request_bytes_max);
                return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            Some(buffer) => {
                let read = buffer.fetch(self.limits.request_bytes_max).await;
                read.map_err(|why| (StatusCode::BAD_REQUEST, format!("its body cannot be read: {}", why.message)))?
            }
        };
        Ok(request.map(|()| Full::new(body)))
    }

    /// Decides where the body is to be found.
    async fn placed(&self, mut response: Response<B>, head_only: bool, client: NodeId, near: bool) -> Bytes {
        let (length, status) = (response.body().size_hint().exact(), response.status());
        if status.is_informational() || status == StatusCode::NO_CONTENT {
            // RFC 9110, section 8.6.
            response.headers_mut().remove(CONTENT_LENGTH);
        } else if let Some(length) = length.filter(|_| status != StatusCode::NOT_MODIFIED) {
            response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
        }
        let lying = response.extensions_mut().remove::<Lying>();
        let (parts, body) = response.into_parts();
        let head = head::of_response(&Response::from_parts(parts, ()));
        if head_only {
            return frame::answer(&head, &Place::Here(Bytes::new()));
        }
        if let Some(Lying { segment, offset, bytes }) = lying {
            // Without shared memory, reading it would take the client another round trip.
            if !near && let Some(here) = small(&segment, offset, bytes) {
                return frame::answer(&head, &Place::Here(here));
            }
            let range = self.bodies.range(segment.name(), offset, bytes);
            // A segment lives as long as its handle, which is kept for as long as the body of a pull.
            self.bodies.lend(segment);
            return frame::answer(&head, &Place::Lies(range));
        }
        match self.bodies.begin(client, Failing::new(body), near).await {
            Ok(place) => frame::answer(&head, &place),
            Err(NotBegun::Failed(why)) => failed(&why),
            Err(NotBegun::TooMany) => {
                told(StatusCode::SERVICE_UNAVAILABLE, "too many bodies are under way (bodies_max)")
            }
        }
    }
}

/// The bytes there, if they go with a head.
fn small(segment: &Segment, offset: u64, bytes: u64) -> Option<Bytes> {
    let mut here = vec![0; usize::try_from(bytes).ok().filter(|bytes| *bytes <= HERE_BYTES_MAX)?];
    segment.read(offset, &mut here).ok()?;
    Some(here.into())
}

fn failed(why: &str) -> Bytes {
    static LINES: LogLimit = LogLimit::new();
    if let Some(left_out) = LINES.pass() {
        tracing::warn!(why, left_out, "a request failed");
    }
    // Details of an internal failure are not shown to clients.
    told(StatusCode::INTERNAL_SERVER_ERROR, "the service failed")
}

/// A response of the server's own.
fn told(status: StatusCode, why: &str) -> Bytes {
    let body = Bytes::from(format!("{why}\n"));
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONTENT_LENGTH, body.len().into());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    frame::answer(&head::of_response(&response), &Place::Here(body))
}
