//! Bodies that are pulled: the client asks for each part, so a client that reads nothing costs only a place, for a limited time.

use std::{
    collections::{HashMap, VecDeque},
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use catena::{LogLimit, Node, NodeId, Segment};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Body;

use crate::{
    frame::{Part, Place, Range},
    limits::Limits,
    staging::{Staged, Staging, unguessable},
};

/// Any error of a service's or a body's.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Bytes of a body, or of its first part, that are sent in the message with the head. Then the client's next question tells that it has read them, whereas a
/// part in a segment has to be acknowledged by a message of its own.
pub(crate) const HERE_BYTES_MAX: usize = 64 << 10;
/// Parts smaller than this, in bytes, are sent in the answer, even to a client that shares memory.
const LIES_BYTES_MIN: usize = HERE_BYTES_MAX;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts something, for each client and in all, against bounds.
#[derive(Debug)]
pub(crate) struct Tally {
    all_max: usize,
    one_max: usize,
    counts: Mutex<(usize, HashMap<NodeId, usize>)>,
}

/// One of them, as long as it is held.
#[derive(Debug)]
pub(crate) struct Pass(Arc<Tally>, NodeId);

impl Tally {
    pub(crate) fn new(all_max: usize, one_max: usize) -> Arc<Self> {
        Arc::new(Self { all_max, one_max, counts: Mutex::default() })
    }

    pub(crate) fn enter(self: &Arc<Self>, client: NodeId) -> Option<Pass> {
        let mut counts = lock(&self.counts);
        let of_one = counts.1.get(&client).copied().unwrap_or_default();
        if counts.0 >= self.all_max || of_one >= self.one_max {
            return None;
        }
        counts.0 += 1;
        counts.1.insert(client, of_one + 1);
        Some(Pass(Arc::clone(self), client))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counts = lock(&self.0.counts);
        counts.0 = counts.0.saturating_sub(1);
        let left = counts.1.get_mut(&self.1).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            counts.1.remove(&self.1);
        }
    }
}

/// A body whose errors are boxed, with those of its bytes that have come and were not taken yet.
pub(crate) struct Failing {
    body: Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>,
    come: VecDeque<Bytes>,
    /// Bytes in `come`.
    bytes: usize,
    ended: bool,
    broken: Option<String>,
}

impl Failing {
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self { body: Box::pin(body.map_err(Into::into)), come: VecDeque::new(), bytes: 0, ended: false, broken: None }
    }

    /// Takes what one frame brings; trailers are dropped.
    fn took(&mut self, frame: Option<Result<hyper::body::Frame<Bytes>, BoxError>>) -> Result<(), String> {
        match frame {
            None => self.ended = true,
            Some(Ok(frame)) => {
                let data = frame.into_data().ok().filter(|data| !data.is_empty());
                self.bytes += data.as_ref().map_or(0, Bytes::len);
                self.come.extend(data);
            }
            Some(Err(why)) => self.broken = Some(why.to_string()),
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Takes what is available without waiting, up to so many bytes.
    fn fill(&mut self, bytes: usize) -> Result<(), String> {
        // A body that has failed is not polled again.
        self.broken.clone().map_or(Ok(()), Err)?;
        while !self.ended && self.bytes < bytes {
            let Some(frame) = self.body.frame().now_or_never() else { break };
            self.took(frame)?;
        }
        // A body that knows its length knows that it has ended before it is polled again.
        self.ended |= self.body.is_end_stream();
        Ok(())
    }

    /// The whole body, if all of it is available and has at most so many bytes.
    fn at_once(&mut self, bytes_max: usize) -> Result<Option<Bytes>, String> {
        self.fill(bytes_max + 1)?;
        Ok((self.ended && self.bytes <= bytes_max).then(|| self.take(bytes_max)))
    }

    /// Waits at most this long for bytes of it, unless there are some already.
    async fn wait(&mut self, patience: Duration) -> Result<(), String> {
        if !self.come.is_empty() || self.ended || patience.is_zero() {
            return Ok(());
        }
        match tokio::time::timeout(patience, self.body.frame()).await {
            Ok(frame) => self.took(frame),
            Err(_) => Ok(()),
        }
    }

    /// The next part, of at most so many bytes, and whether it is the last. Empty if nothing came in time.
    async fn part(&mut self, bytes_max: usize, patience: Duration) -> Result<(Bytes, bool), String> {
        self.fill(bytes_max)?;
        self.wait(patience).await?;
        self.fill(bytes_max)?;
        let part = self.take(bytes_max);
        Ok((part, self.ended && self.come.is_empty()))
    }

    fn take(&mut self, bytes_max: usize) -> Bytes {
        let part = self.joined(bytes_max);
        self.bytes -= part.len();
        part
    }

    fn joined(&mut self, bytes_max: usize) -> Bytes {
        let Some(mut first) = self.come.pop_front() else { return Bytes::new() };
        if first.len() > bytes_max {
            self.come.push_front(first.split_off(bytes_max));
        }
        if self.come.is_empty() || first.len() == bytes_max {
            return first;
        }
        let mut part = BytesMut::from(first);
        while let Some(mut next) = self.come.pop_front() {
            let room = bytes_max - part.len();
            if next.len() > room {
                self.come.push_front(next.split_off(room));
            }
            part.extend_from_slice(&next);
            if part.len() == bytes_max {
                break;
            }
        }
        part.freeze()
    }
}

struct Pulled {
    body: Failing,
    staged: Option<Staged>,
}

struct Entry {
    client: NodeId,
    pulled: tokio::sync::Mutex<Pulled>,
    asked: Mutex<Instant>,
    _pass: Pass,
}

/// Why a body is not begun.
pub(crate) enum NotBegun {
    /// There are too many.
    TooMany,
    /// It failed before anything of it was sent.
    Failed(String),
}

impl From<String> for NotBegun {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Segments that clients were told of, oldest first, each with its bytes.
#[derive(Default)]
struct Lent {
    segments: VecDeque<(Instant, Segment, u64)>,
    bytes: u64,
}

impl Lent {
    fn pop(&mut self, gone: impl FnOnce(&mut VecDeque<(Instant, Segment, u64)>) -> Option<(Instant, Segment, u64)>) {
        self.bytes -= gone(&mut self.segments).map_or(0, |(.., bytes)| bytes);
    }
}

/// All bodies that are being pulled here.
pub(crate) struct Bodies {
    owner: String,
    limits: Limits,
    all: Mutex<HashMap<u64, Arc<Entry>>>,
    tally: Arc<Tally>,
    staging: Arc<Staging>,
    lent: Mutex<Lent>,
}

impl Bodies {
    pub(crate) fn new(node: &Node, limits: Limits) -> Arc<Self> {
        let owner = node.address().unwrap_or(node.name()).to_owned();
        let tally = Tally::new(limits.bodies_max, limits.bodies_per_client_max);
        let staging = Staging::new(node, limits.part_bytes as u64, limits.staging_bytes_max);
        Arc::new(Self { owner, limits, all: Mutex::default(), tally, staging, lent: Mutex::default() })
    }

    /// A range of a segment of this node, as others import it.
    pub(crate) fn range(&self, segment: &str, offset: u64, bytes: u64) -> Range {
        Range { offset, bytes, segment: format!("{}/{segment}", self.owner) }
    }

    /// Keeps a segment that a client has just been told of, for as long as the body of a pull is kept.
    pub(crate) fn lend(&self, segment: Segment) {
        let mut lent = lock(&self.lent);
        // A segment lent repeatedly is held once.
        if lent.segments.back().is_some_and(|(_, last, _)| last.id() == segment.id()) {
            lent.pop(VecDeque::pop_back);
        }
        let bytes = segment.bytes();
        lent.bytes += bytes;
        lent.segments.push_back((Instant::now(), segment, bytes));
        while lent.segments.len() > self.limits.bodies_max
            || (lent.bytes > self.limits.lent_bytes_max && lent.segments.len() > 1)
        {
            lent.pop(VecDeque::pop_front);
        }
    }

    /// Decides where a body is to be found: a small one comes with the head; of others, the first part does, as far as it is available, and the rest is pulled.
    /// `near`: parts may lie in memory shared with the client.
    pub(crate) async fn begin(&self, client: NodeId, mut body: Failing, near: bool) -> Result<Place, NotBegun> {
        if let Some(whole) = body.at_once(HERE_BYTES_MAX)? {
            return Ok(Place::Here(whole));
        }
        // A body of known length is on its way; waiting for one of unknown length could block on something that the client itself has yet to do.
        if body.body.size_hint().exact().is_some() {
            body.wait(self.limits.first_time_max).await?;
            if let Some(whole) = body.at_once(HERE_BYTES_MAX)? {
                return Ok(Place::Here(whole));
            }
        }
        let pass = self.tally.enter(client).ok_or(NotBegun::TooMany)?;
        let mut pulled = Pulled { body, staged: None };
        let lies = near && pulled.body.bytes >= LIES_BYTES_MIN;
        if lies {
            pulled.staged = self.staging.take(client).await;
        }
        // Without a segment, a client that does not read must not cost much memory.
        let bytes_max = if pulled.staged.is_some() { self.limits.part_bytes } else { HERE_BYTES_MAX };
        let (bytes, last) = pulled.body.part(bytes_max, Duration::ZERO).await?;
        let part = match bytes.is_empty() {
            true => None,
            false => Some(self.laid(&mut pulled, client, (bytes, last), lies).await),
        };
        let number = unguessable();
        let place = match part {
            Some(Part::Here { bytes, last: true }) => return Ok(Place::Here(bytes)),
            Some(part) => Place::Begun(number, part),
            None => Place::Pulled(number),
        };
        let pulled = tokio::sync::Mutex::new(pulled);
        let entry = Entry { client, pulled, asked: Mutex::new(Instant::now()), _pass: pass };
        lock(&self.all).insert(number, Arc::new(entry));
        Ok(place)
    }

    /// The next part of one.
    pub(crate) async fn next(&self, number: u64, client: NodeId, near: bool) -> Part {
        // Numbers are unguessable, but the client is checked all the same.
        let entry = lock(&self.all).get(&number).filter(|entry| entry.client == client).cloned();
        let Some(entry) = entry else {
            return Part::Failed("there is no such body any more (body_idle_max)".to_owned());
        };
        let Ok(mut pulled) = entry.pulled.try_lock() else {
            return Part::Failed("two parts of one body were asked for at one time".to_owned());
        };
        let part = pulled.body.part(self.limits.part_bytes, self.limits.part_time_max).await;
        *lock(&entry.asked) = Instant::now();
        let part = match part {
            Ok(part) => self.laid(&mut pulled, client, part, near).await,
            Err(why) => {
                static LINES: LogLimit = LogLimit::new();
                if let Some(left_out) = LINES.pass() {
                    tracing::warn!(why, left_out, "a body failed");
                }
                Part::Failed("the service failed within the body".to_owned())
            }
        };
        // For parts in a segment, the client says when it has read them: it may still be reading the previous one.
        if matches!(part, Part::Here { last: true, .. } | Part::Failed(_)) && pulled.staged.is_none() {
            lock(&self.all).remove(&number);
        }
        part
    }

    /// Puts a part into memory shared with the client, if it is long enough. The last part stays until the client says that it has read it.
    async fn laid(&self, pulled: &mut Pulled, client: NodeId, (bytes, last): (Bytes, bool), near: bool) -> Part {
        if near && bytes.len() >= LIES_BYTES_MIN {
            if pulled.staged.is_none() {
                pulled.staged = self.staging.take(client).await;
            }
            if let Some((offset, name)) = pulled.staged.as_mut().and_then(|staged| staged.lay(&bytes)) {
                return Part::Lies { range: self.range(&name, offset, bytes.len() as u64), last };
            }
        }
        Part::Here { bytes, last }
    }

    /// The client needs no more of the body: its segment can be used again.
    pub(crate) fn leave(&self, number: u64, client: NodeId) {
        let mut all = lock(&self.all);
        if all.get(&number).is_some_and(|entry| entry.client == client)
            && let Some(entry) = all.remove(&number)
            && let Ok(mut pulled) = entry.pulled.try_lock()
            && let Some(staged) = pulled.staged.take()
        {
            staged.give_back();
        }
    }

    /// Drops bodies for which nobody has asked in time, and segments lent long ago.
    pub(crate) fn sweep(&self) {
        let idle = self.limits.body_idle_max;
        // Dropped outside of the lock: dropping a body may run arbitrary code.
        let over: Vec<_> = {
            let mut all = lock(&self.all);
            all.extract_if(|_, entry| entry.pulled.try_lock().is_ok() && lock(&entry.asked).elapsed() > idle).collect()
        };
        drop(over);
        let mut lent = lock(&self.lent);
        while lent.segments.front().is_some_and(|(since, ..)| since.elapsed() > idle) {
            lent.pop(VecDeque::pop_front);
        }
    }
}
