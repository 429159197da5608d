//! Blobs of replies: each gets an address that only the reply's recipient can use, for each byte once, and for a limited time. They stream from their owner.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use catena::{Blob, Client, Exception, Value, from_value};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Frame,
    header::{self, HeaderValue},
};

use crate::{
    charge::Memory,
    limits::Limits,
    origins::Asker,
    problem::Problem,
    ranges::{Part, part},
    reply::{self, Body},
    visitors::{Pass, network},
};

/// Bytes that are read and charged at a time.
const CHUNK_BYTES: u64 = 2 << 20;
/// A service's bytes must not run as a page of the gateway's origin, whatever media type the service gives them.
const NO_SCRIPTS: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The recipient of an address: nobody else can use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    address: IpAddr,
    asker: Asker,
}

impl Whose {
    pub(crate) fn of(address: IpAddr, asker: &Asker) -> Self {
        Self { address: network(address), asker: asker.clone() }
    }
}

/// The addresses that are valid.
pub(crate) struct Blobs {
    client: Client,
    limits: Arc<Limits>,
    given: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    by_number: HashMap<u128, Held>,
    /// In the order in which they were given out, which is also the order in which they expire.
    in_turn: BTreeMap<u64, u128>,
    last: u64,
}

struct Held {
    turn: u64,
    blob: Blob,
    whose: Whose,
    until: Instant,
    /// Bytes that may still be fetched.
    left: u64,
    /// So that an empty blob, too, can be fetched only once.
    asked: bool,
}

impl Given {
    fn end(&mut self, number: u128) {
        if let Some(held) = self.by_number.remove(&number) {
            self.in_turn.remove(&held.turn);
        }
    }

    fn end_old(&mut self, now: Instant) {
        while let Some((_, number)) = self.in_turn.first_key_value() {
            let number = *number;
            if self.by_number.get(&number).is_some_and(|held| held.until > now) {
                return;
            }
            self.end(number);
        }
    }

    /// Makes room for one more address of this client.
    fn make_room(&mut self, address: IpAddr, limits: &Limits) {
        let his = |given: &Self| {
            let his = given
                .in_turn
                .values()
                .filter(|number| given.by_number.get(number).is_some_and(|held| held.whose.address == address));
            his.copied().collect::<Vec<_>>()
        };
        let his = his(self);
        for number in his.iter().take((his.len() + 1).saturating_sub(limits.blobs_per_address_max)) {
            self.end(*number);
        }
        while self.by_number.len() >= limits.blobs_max {
            let Some(oldest) = self.in_turn.first_key_value().map(|(_, number)| *number) else { return };
            self.end(oldest);
        }
    }
}

/// Gives addresses to the blobs of one answer.
#[derive(Clone)]
pub(crate) struct Giver(Option<(Arc<Blobs>, Whose)>);

impl Giver {
    pub(crate) fn new(blobs: &Arc<Blobs>, whose: Whose) -> Self {
        Self(Some((Arc::clone(blobs), whose)))
    }

    /// Gives out no addresses.
    #[cfg(test)]
    pub(crate) const fn to_nobody() -> Self {
        Self(None)
    }

    /// The address of a blob, which is passed as CBOR; `None`: it is not a blob, or too large.
    pub(crate) fn address(&self, blob: &[u8]) -> Option<String> {
        let (blobs, whose) = self.0.as_ref()?;
        let value = Value::from_cbor(Bytes::copy_from_slice(blob)).ok()?;
        blobs.give(from_value(&value).ok()?, whose)
    }
}

/// What a request asks for.
pub(crate) struct Wanted<'r> {
    pub(crate) address: &'r str,
    pub(crate) whose: &'r Whose,
    pub(crate) head: bool,
    pub(crate) headers: &'r HeaderMap,
}

impl Blobs {
    pub(crate) fn new(client: Client, limits: Arc<Limits>) -> Self {
        Self { client, limits, given: Mutex::default() }
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, blob: Blob, whose: &Whose) -> Option<String> {
        let (limits, now) = (&self.limits, Instant::now());
        if blob.size() > limits.blob_bytes_max {
            return None;
        }
        let number = number();
        let mut given = self.given();
        given.end_old(now);
        given.make_room(whose.address, limits);
        given.last += 1;
        let turn = given.last;
        let (left, until) = (blob.size(), now + Duration::from_millis(limits.blob_ms));
        let blob = blob.on(&self.client);
        given.by_number.insert(number, Held { turn, blob, whose: whose.clone(), until, left, asked: false });
        given.in_turn.insert(turn, number);
        Some(format!("/blob/{number:032x}"))
    }

    /// Answers a request for a blob, or for a part of it.
    pub(crate) async fn get(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        pass: Pass,
        memory: &Memory,
    ) -> Result<Response<Body>, Problem> {
        let (number, blob) = self.find(&wanted)?;
        let size = blob.size();
        let part = part(wanted.headers.get(header::RANGE), size);
        let (status, range) = match part {
            Part::Whole => (StatusCode::OK, 0..size),
            Part::Of(range) => (StatusCode::PARTIAL_CONTENT, range),
            Part::Nothing => return Ok(not_there(size)),
        };
        let count = range.end - range.start;
        let body = if wanted.head {
            reply::empty(status).into_body()
        } else {
            let left = self.take(number, count)?;
            let chunk_bytes = CHUNK_BYTES.min(self.limits.memory_bytes_max as u64);
            let (blob, memory) = (blob.slice(range.start, range.end), memory.clone());
            let mut bytes = Streaming { blob, next: 0, left, chunk_bytes, memory, _pass: pass };
            // If nothing at all can be read, the answer is an error rather than a body that breaks off.
            let first = bytes.chunk().await.transpose().map_err(|why| Problem::from(&why))?;
            bytes.into_body(first)
        };
        let mut response = reply::of(status, None, body);
        let headers = response.headers_mut();
        let kind = HeaderValue::from_str(blob.media_type()).ok().filter(|kind| !kind.is_empty());
        let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::CONTENT_LENGTH, count.into());
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NO_SCRIPTS));
        if status == StatusCode::PARTIAL_CONTENT {
            let said = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
            headers.extend(HeaderValue::try_from(said).ok().map(|said| (header::CONTENT_RANGE, said)));
        }
        Ok(response)
    }

    fn find(&self, wanted: &Wanted<'_>) -> Result<(u128, Blob), Problem> {
        let is_number = wanted.address.len() == 32 && wanted.address.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(wanted.address, 16).ok().filter(|_| is_number);
        let mut given = self.given();
        given.end_old(Instant::now());
        let held = number.and_then(|number| Some((number, given.by_number.get(&number)?)));
        // The same error if it belongs to somebody else: whoever may not have it need not know that it exists.
        let his = held.filter(|(_, held)| held.whose == *wanted.whose);
        his.map(|(number, held)| (number, held.blob.clone())).ok_or_else(gone)
    }

    /// Takes so many bytes of those that may still be fetched from an address.
    fn take(self: &Arc<Self>, number: u128, count: u64) -> Result<Left, Problem> {
        let mut given = self.given();
        let held = given.by_number.get_mut(&number).filter(|held| held.left >= count && !(held.asked && count == 0));
        let held = held.ok_or_else(gone)?;
        held.left -= count;
        held.asked = true;
        Ok(Left { blobs: Arc::clone(self), number, count })
    }
}

/// Bytes taken from an address and not yet sent. If this is dropped, they may be fetched again.
struct Left {
    blobs: Arc<Blobs>,
    number: u128,
    count: u64,
}

impl Drop for Left {
    fn drop(&mut self) {
        let mut given = self.blobs.given();
        let Some(held) = given.by_number.get_mut(&self.number) else { return };
        held.left += self.count;
        if held.left == 0 && held.asked {
            given.end(self.number);
        }
    }
}

/// A blob on its way to a browser.
struct Streaming {
    blob: Blob,
    next: u64,
    left: Left,
    chunk_bytes: u64,
    memory: Memory,
    _pass: Pass,
}

impl Streaming {
    /// The next bytes; `None` after the last.
    async fn chunk(&mut self) -> Option<Result<Bytes, Exception>> {
        let count = self.chunk_bytes.min(self.left.count);
        if count == 0 {
            return None;
        }
        let paid = self.memory.take(count as usize).await?;
        let read = self.blob.read(self.next..self.next + count).await;
        Some(read.map(|bytes| {
            self.next += count;
            self.left.count -= count;
            Memory::charged(bytes, paid)
        }))
    }

    /// A body that ends early breaks its connection, since its length was announced.
    fn into_body(self, first: Option<Bytes>) -> Body {
        let chunks = stream::unfold((self, first), async |(mut streaming, first)| {
            let bytes = match first {
                Some(first) => first,
                None => streaming.chunk().await?.ok()?,
            };
            Some((Ok::<_, Infallible>(Frame::data(bytes)), (streaming, None)))
        });
        StreamBody::new(chunks).boxed_unsync()
    }
}

fn gone() -> Problem {
    let help = "an address holds once, for a time, and for the page that the reply went to: ask for the reply again";
    Problem::caller(StatusCode::NOT_FOUND, "NoSuchBlob", "there is no blob at this address, or no more", help)
}

fn not_there(size: u64) -> Response<Body> {
    let mut response = reply::empty(StatusCode::RANGE_NOT_SATISFIABLE);
    let said = HeaderValue::try_from(format!("bytes */{size}")).ok();
    response.headers_mut().extend(said.map(|said| (header::CONTENT_RANGE, said)));
    response
}

/// 128 unguessable bits: SipHash of a counter, under keys that the system drew for this process.
fn number() -> u128 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let half = || u128::from(KEYS.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)));
    half() << 64 | half()
}
