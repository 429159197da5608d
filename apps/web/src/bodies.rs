//! Bodies that are pulled: their client asks for each part, so one that reads nothing costs nothing but a place, for a time.

use std::{
    collections::{HashMap, VecDeque},
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use catena::{Node, NodeId, Segment};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Body;

use crate::{
    frame::Part,
    limits::Limits,
    staging::{Staged, Staging, unguessable},
};

/// Any error of a service's or a body's.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Smaller parts go in the answer, wherever their client is, in bytes.
const LIES_BYTES_MIN: usize = 16 << 10;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many of something there are, of each client and of all.
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

/// A body whose errors are boxed, and what of it has come and was not taken.
pub(crate) struct Failing {
    body: Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>,
    come: VecDeque<Bytes>,
    /// Of those.
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

    /// Takes what there is without waiting, up to so many bytes.
    fn fill(&mut self, bytes: usize) -> Result<(), String> {
        // One that failed is not asked again.
        self.broken.clone().map_or(Ok(()), Err)?;
        while !self.ended && self.bytes < bytes {
            let Some(frame) = self.body.frame().now_or_never() else { break };
            self.took(frame)?;
        }
        // One that knows its length knows its end before it is asked.
        self.ended |= self.body.is_end_stream();
        Ok(())
    }

    /// All of it, if it is there and no more than so many bytes.
    pub(crate) fn at_once(&mut self, bytes_max: usize) -> Result<Option<Bytes>, String> {
        self.fill(bytes_max + 1)?;
        Ok((self.ended && self.bytes <= bytes_max).then(|| self.take(bytes_max)))
    }

    /// The next part, of at most so many bytes, and whether it is the last. It may be empty, after so long.
    async fn part(&mut self, bytes_max: usize, patience: Duration) -> Result<(Bytes, bool), String> {
        self.fill(bytes_max)?;
        if self.come.is_empty() && !self.ended {
            let Ok(frame) = tokio::time::timeout(patience, self.body.frame()).await else {
                return Ok((Bytes::new(), false));
            };
            self.took(frame)?;
            self.fill(bytes_max)?;
        }
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

/// All bodies that are being pulled here.
pub(crate) struct Bodies {
    owner: String,
    limits: Limits,
    all: Mutex<HashMap<u64, Arc<Entry>>>,
    tally: Arc<Tally>,
    staging: Arc<Staging>,
    /// Segments that somebody was told of, oldest first.
    lent: Mutex<VecDeque<(Instant, Segment)>>,
}

impl Bodies {
    pub(crate) fn new(node: &Node, limits: Limits) -> Arc<Self> {
        let owner = node.address().unwrap_or(node.name()).to_owned();
        let tally = Tally::new(limits.bodies_max, limits.bodies_per_client_max);
        let staging = Staging::new(node, limits.part_bytes as u64, limits.staging_bytes_max);
        Arc::new(Self { owner, limits, all: Mutex::default(), tally, staging, lent: Mutex::default() })
    }

    /// A segment of this node, as others import it.
    pub(crate) fn import_name(&self, segment: &str) -> String {
        format!("{}/{segment}", self.owner)
    }

    /// Holds a segment that somebody has just been told of, for as long as a body is held that is pulled.
    pub(crate) fn lend(&self, segment: Segment) {
        let mut lent = lock(&self.lent);
        // The same again and again is held once.
        if lent.back().is_some_and(|(_, last)| last.id() == segment.id()) {
            lent.pop_back();
        }
        lent.push_back((Instant::now(), segment));
        let mut bytes: u64 = lent.iter().map(|(_, segment)| segment.bytes()).sum();
        while lent.len() > self.limits.bodies_max || (bytes > self.limits.lent_bytes_max && lent.len() > 1) {
            bytes -= lent.pop_front().map_or(0, |(_, segment)| segment.bytes());
        }
    }

    /// Keeps a body for its client; `None`: there are too many.
    pub(crate) fn keep(&self, client: NodeId, body: Failing) -> Option<u64> {
        let pass = self.tally.enter(client)?;
        let pulled = tokio::sync::Mutex::new(Pulled { body, staged: None });
        let entry = Entry { client, pulled, asked: Mutex::new(Instant::now()), _pass: pass };
        let number = unguessable();
        lock(&self.all).insert(number, Arc::new(entry));
        Some(number)
    }

    /// The next part of one.
    pub(crate) async fn next(&self, number: u64, client: NodeId, near: bool) -> Part {
        // Numbers are drawn, and still nobody else's body is anybody's.
        let entry = lock(&self.all).get(&number).filter(|entry| entry.client == client).cloned();
        let Some(entry) = entry else {
            return Part::Failed("there is no such body any more (body_idle_max)".to_owned());
        };
        let Ok(mut pulled) = entry.pulled.try_lock() else {
            return Part::Failed("two parts of one body were asked for at one time".to_owned());
        };
        let part = pulled.body.part(self.limits.part_bytes, self.limits.part_time_max).await;
        *lock(&entry.asked) = Instant::now();
        match part {
            Ok(part) => self.placed(&mut pulled, number, client, part, near).await,
            Err(why) => {
                tracing::warn!(why, "a body failed");
                // The part before may still be read.
                if pulled.staged.is_none() {
                    lock(&self.all).remove(&number);
                }
                Part::Failed("the service failed within the body".to_owned())
            }
        }
    }

    async fn placed(&self, pulled: &mut Pulled, number: u64, client: NodeId, part: (Bytes, bool), near: bool) -> Part {
        let (bytes, last) = part;
        if near && bytes.len() >= LIES_BYTES_MIN {
            if pulled.staged.is_none() {
                pulled.staged = self.staging.take(client).await;
            }
            if let Some((offset, name)) = pulled.staged.as_mut().and_then(|staged| staged.lay(&bytes)) {
                // The last part stays until its client has read it, and says so.
                let range = crate::frame::Range { offset, bytes: bytes.len() as u64, segment: self.import_name(&name) };
                return Part::Lies { range, last };
            }
        }
        // Where parts lay in a segment its client says when it has read them.
        if last && pulled.staged.is_none() {
            lock(&self.all).remove(&number);
        }
        Part::Here { bytes, last }
    }

    /// Its client needs no more of it: its segment is free for another.
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

    /// Lets go of bodies that nobody asked for in their time, and of what was lent long ago.
    pub(crate) fn sweep(&self) {
        let idle = self.limits.body_idle_max;
        // Dropped outside of the lock: a body may do anything then.
        let over: Vec<_> = {
            let mut all = lock(&self.all);
            all.extract_if(|_, entry| entry.pulled.try_lock().is_ok() && lock(&entry.asked).elapsed() > idle).collect()
        };
        drop(over);
        lock(&self.lent).retain(|(since, _)| since.elapsed() <= idle);
    }
}
