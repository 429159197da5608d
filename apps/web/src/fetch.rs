//! The client: a request goes as a message; the body is read from where it is.

use std::sync::Arc;

use bytes::Bytes;
use catena::{Answer, Client, Exception, Imported, Long, NodeId, Question};
use hyper::{Method, Request, Response, StatusCode, header::CONTENT_LENGTH};

use crate::{
    body::FetchBody,
    frame::{self, Part, Place, Range},
    head::{self, HeadError},
    imports::Imports,
    limits::FetchLimits,
    pulling::Pulling,
};

/// Bytes of a head that fits into a short message, with its kind.
const HEAD_BYTES_MAX: usize = 10 << 10;
/// Bytes of head and body that go in one frame.
const FRAME_BYTES_MAX: usize = 11 << 10;
/// The return buffer for an answer that brings a small body, in bytes: for servers whose memory is not shared.
const ROOM_BYTES: u64 = 96 << 10;

/// Why nothing was fetched, or not all of it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchError {
    /// Catena's own: the server is unknown, silent, overloaded, gone.
    #[error("{}: {}", .0.name, .0.message)]
    Exception(Box<Exception>),
    /// The request's head does not fit into a message.
    #[error("the head of the request has {bytes} bytes, and {bytes_max} are taken at most")]
    HeadTooLarge {
        /// So many.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// There is more than was wanted.
    #[error("the body has more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The server's head is none.
    #[error("the server's response: {0}")]
    Head(#[from] HeadError),
    /// The server does not keep to what is agreed.
    #[error("the server is at fault: {0}")]
    Protocol(&'static str),
    /// The body ended in its midst.
    #[error("the body broke off: {0}")]
    BrokeOff(String),
    /// The body ended before the length that its head declares, or goes on beyond it.
    #[error("the head declares a body of {declared} bytes, and {came} came")]
    Length {
        /// So many.
        declared: u64,
        /// As far as it was looked at.
        came: u64,
    },
}

impl From<Exception> for FetchError {
    fn from(why: Exception) -> Self {
        Self::Exception(Box::new(why))
    }
}

/// The length of a body, if its head declares it.
#[derive(Clone, Copy)]
pub(crate) struct Declared(Option<u64>);

impl Declared {
    fn of(method: &Method, response: &Response<()>) -> Self {
        let length = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // These responses declare the length of a body that they do not have (RFC 9110, section 8.6).
        let without = method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED;
        Self(length.filter(|_| !without))
    }

    pub(crate) const fn bytes(self) -> Option<u64> {
        self.0
    }

    /// Checks that so many bytes may have come, with more to follow.
    pub(crate) fn allows(self, came: u64) -> Result<(), FetchError> {
        self.check(came, |declared| came <= declared)
    }

    /// Checks that so many bytes are the whole body.
    pub(crate) fn is(self, came: u64) -> Result<(), FetchError> {
        self.check(came, |declared| came == declared)
    }

    fn check(self, came: u64, holds: impl FnOnce(u64) -> bool) -> Result<(), FetchError> {
        match self.0 {
            Some(declared) if !holds(declared) => Err(FetchError::Length { declared, came }),
            _ => Ok(()),
        }
    }
}

/// A client of web servers behind service IDs. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    limits: FetchLimits,
    imports: Imports,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("client", &self.inner.client.name()).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Fetches by this client.
    #[must_use]
    pub fn new(client: Client, limits: FetchLimits) -> Self {
        let imports = Imports::new(limits.imports_max);
        Self { inner: Arc::new(Inner { client, limits, imports }) }
    }

    /// Fetches from the server behind the service ID `site`. Of the request's address only path and query are sent. A safe request (RFC 9110, section 9.2.1) is
    /// repeated once if the server was lost meanwhile.
    ///
    /// # Errors
    /// [`FetchError`]. That of a response with a status of 4xx or 5xx is none: it is a response.
    pub async fn fetch(&self, site: &str, request: Request<Bytes>) -> Result<Response<FetchBody>, FetchError> {
        let head = Bytes::from(head::of_request(&request));
        if head.len() > HEAD_BYTES_MAX {
            return Err(FetchError::HeadTooLarge { bytes: head.len(), bytes_max: HEAD_BYTES_MAX });
        }
        let (parts, body) = request.into_parts();
        let ask = || async { self.ask(site, &head, &body).await };
        let answer = match ask().await {
            Err(FetchError::Exception(why)) if parts.method.is_safe() && why.name == catena::exceptions::OWNER_LOST => {
                ask().await
            }
            answer => answer,
        };
        let (bytes, node) = answer?;
        let (head, place) = frame::answered(bytes).ok_or(FetchError::Protocol("its answer is none"))?;
        let response = head::to_response(&head)?;
        let declared = Declared::of(&parts.method, &response);
        let body = match place {
            Place::Here(body) => {
                declared.is(body.len() as u64)?;
                FetchBody::here(body)
            }
            Place::Lies(range) => {
                declared.is(range.bytes)?;
                let far = self.place(&range, node).await?;
                if self.inner.imports.is_near(site) {
                    self.inner.imports.see(site, &far).await;
                }
                FetchBody::lying(far, range)
            }
            Place::Pulled(number) => FetchBody::pulled(Pulling::new(self, site, number, declared)),
            Place::Begun(number, part) => FetchBody::pulled(Pulling::begun(self, site, number, declared, (part, node))),
        };
        Ok(response.map(|()| body))
    }

    async fn ask(&self, site: &str, head: &Bytes, body: &Bytes) -> Result<(Bytes, Option<NodeId>), FetchError> {
        let near = self.inner.imports.is_near(site);
        let kind = if near { frame::FETCH } else { frame::FETCH_BY_MESSAGE };
        let long = Long::default().item(Bytes::from_static(kind)).item(head.clone());
        let long = match body.len() {
            0 => long,
            count if head.len() + count <= FRAME_BYTES_MAX => long.item(body.clone()),
            _ => long.and(body.clone()),
        };
        let question = Question::of(long);
        let question = if near { question } else { question.room(ROOM_BYTES) };
        let FetchLimits { head_bytes_max, part_bytes_max, .. } = self.inner.limits;
        self.answer(site, question, head_bytes_max.saturating_add(part_bytes_max)).await
    }

    /// The next part of a body, and the node that sends it.
    pub(crate) async fn part(&self, site: &str, number: u64) -> Result<(Part, Option<NodeId>), FetchError> {
        let near = self.inner.imports.is_near(site);
        let kind = if near { frame::NEXT } else { frame::NEXT_BY_MESSAGE };
        // A part, and the byte that says what it is.
        let bytes_max = self.inner.limits.part_bytes_max + 1;
        let question = Question::new([Bytes::from_static(kind), number.to_le_bytes().to_vec().into()]);
        let question = if near { question } else { question.room(bytes_max) };
        let (bytes, node) = self.answer(site, question, bytes_max).await?;
        Ok((Part::decode(bytes).ok_or(FetchError::Protocol("a part of its body is none"))?, node))
    }

    /// Bytes of a part, at most.
    pub(crate) fn part_bytes_max(&self) -> u64 {
        self.inner.limits.part_bytes_max
    }

    /// Imports the segment in which something lies, as announced by this node.
    pub(crate) async fn place(&self, range: &Range, node: Option<NodeId>) -> Result<Imported, FetchError> {
        let node = node.ok_or(FetchError::Protocol("it tells of a segment where nobody can"))?;
        self.inner.imports.of(&self.inner.client, range, node).await
    }

    /// Records in which way a part was read.
    pub(crate) fn note(&self, site: &str, far: &Imported) {
        self.inner.imports.note(site, far);
    }

    /// Tells the server that no more of a body is wanted. The message may be lost: then the server gives up after its own timeout.
    pub(crate) fn leave(&self, site: &str, number: u64) {
        let (client, site) = (self.inner.client.clone(), site.to_owned());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let items = [Bytes::from_static(frame::LEAVE), number.to_le_bytes().to_vec().into()];
            let _ = client.send_short("", &site, items).await;
        });
    }

    /// Asks; returns the answer, and the node that sent it where that is known.
    async fn answer(
        &self,
        site: &str,
        question: Question,
        bytes_max: u64,
    ) -> Result<(Bytes, Option<NodeId>), FetchError> {
        let question = question.timeout(self.inner.limits.answer_time_max);
        Ok(match self.inner.client.ask(site, question).await? {
            Answer::Returned(bytes) => (bytes, None),
            Answer::Short(message) => (message.items().first().cloned().unwrap_or_default(), Some(message.node().id)),
            Answer::Long(message) => {
                let bytes = match message.buffers().first() {
                    Some(buffer) => buffer.fetch(bytes_max).await?,
                    None => Bytes::new(),
                };
                (bytes, Some(message.node().id))
            }
        })
    }
}
