//! From frames to messages: the receiver's half of fragmentation.

use std::collections::HashMap;

use bytes::Bytes;

use crate::config::Limits;
use crate::measure::LONG_BYTES_MIN;
use crate::memory::{Lease, MemoryBudget, OverBudget};
use crate::{Frame, FrameError, Incoming, Message};

/// Smallest allocation for a part that grows: one typical read.
const GROW_BYTES_MIN: usize = 64 * 1024;

/// What a frame brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to tell yet.
    Nothing,
    /// One thing to deliver. If a head and its tail are completed by one frame, they come as a whole message.
    Deliver(Incoming),
    /// Answer with a pong.
    Ping(u64),
    /// The answer to a ping.
    Pong(u64),
}

/// Why a frame was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// There is no memory for it now. Nothing has changed: offer the same frame again.
    NoMemory(OverBudget),
    /// It does not fit what came before it, or a limit. The link cannot go on.
    Wrong(FrameError),
}

impl From<FrameError> for NotTaken {
    fn from(why: FrameError) -> Self {
        Self::Wrong(why)
    }
}

/// Puts fragments together, within [`Limits`] and a [`MemoryBudget`].
#[derive(Debug)]
pub struct Assembler {
    limits: Limits,
    under_way: HashMap<u64, Partial>,
    announced_bytes: u64,
    /// Messages under way that are long enough to be timed.
    long_under_way: usize,
    memory: MemoryBudget,
    /// The charge of the message that was completed last.
    completed: Option<Lease>,
}

#[derive(Debug)]
struct Partial {
    head: Part,
    tail: Part,
    head_delivered: bool,
    lease: Lease,
}

/// A byte string of announced length, part of which has arrived.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    announced: usize,
    /// Bytes still to come.
    missing: usize,
}

impl Part {
    fn new(announced: usize) -> Self {
        Self { bytes: Vec::new(), announced, missing: announced }
    }

    /// The capacity it needs for `more` further bytes: at most double what has really come, so that an announcement alone costs nothing.
    fn capacity_with(&self, more: usize) -> usize {
        let (needed, capacity) = (self.bytes.len() + more, self.bytes.capacity());
        if needed <= capacity { capacity } else { needed.max(capacity * 2).max(GROW_BYTES_MIN).min(self.announced) }
    }

    fn take(&mut self, data: &[u8]) {
        let capacity = self.capacity_with(data.len());
        self.bytes.reserve_exact(capacity - self.bytes.len());
        self.bytes.extend_from_slice(data);
        self.missing -= data.len();
    }

    fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes).into()
    }
}

impl Partial {
    fn take(&mut self, id: u64, data: &[u8]) -> Result<(), NotTaken> {
        let (head, rest) = data.split_at(data.len().min(self.head.missing));
        if rest.len() > self.tail.missing {
            return Err(FrameError::Fragment { id, what: "brought more bytes than it announced" }.into());
        }
        // A delivered head stays charged: its receiver keeps what it needs of it until the tail is here.
        let delivered = if self.head_delivered { self.head.announced } else { 0 };
        let capacity = delivered + self.head.capacity_with(head.len()) + self.tail.capacity_with(rest.len());
        if capacity as u64 > self.lease.bytes() {
            self.lease.resize(capacity as u64).map_err(NotTaken::NoMemory)?;
        }
        self.head.take(head);
        self.tail.take(rest);
        Ok(())
    }
}

impl Assembler {
    /// An assembler with nothing under way. What has come in part is charged to `memory`.
    pub fn new(limits: Limits, memory: MemoryBudget) -> Self {
        Self { limits, under_way: HashMap::new(), announced_bytes: 0, long_under_way: 0, memory, completed: None }
    }

    /// Whether part of a message has come.
    pub fn is_mid_message(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// How many messages of at least [`LONG_BYTES_MIN`] have come in part.
    pub(crate) fn long_under_way(&self) -> usize {
        self.long_under_way
    }

    /// The charge of the message that was completed last, once: whoever has the message holds its charge.
    pub(crate) fn take_charge(&mut self) -> Option<Lease> {
        self.completed.take()
    }

    /// Takes one frame.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub fn accept(&mut self, frame: &Frame) -> Result<Outcome, NotTaken> {
        match frame {
            Frame::Whole(message) => Ok(Outcome::Deliver(Incoming::Whole(message.clone()))),
            Frame::Begin { id, head_bytes, tail_bytes, data } => self.begin(*id, *head_bytes, *tail_bytes, data),
            Frame::More { id, data } => self.more(*id, data),
            Frame::Ping { nonce } => Ok(Outcome::Ping(*nonce)),
            Frame::Pong { nonce } => Ok(Outcome::Pong(*nonce)),
        }
    }

    fn begin(&mut self, id: u64, head_bytes: u32, tail_bytes: u64, data: &[u8]) -> Result<Outcome, NotTaken> {
        let bytes = u64::from(head_bytes).saturating_add(tail_bytes);
        let announced_bytes = self.announced_bytes.saturating_add(bytes);
        let (limits, under_way) = (&self.limits, self.under_way.len() as u64 + 1);
        within("message_bytes_max", bytes, limits.message_bytes_max)?;
        within("fragmented_messages_max", under_way, limits.fragmented_messages_max.into())?;
        within("receive_bytes_max", announced_bytes, limits.receive_bytes_max)?;
        if self.under_way.contains_key(&id) {
            return Err(FrameError::Fragment { id, what: "began while it was under way" }.into());
        }
        // A message is shorter than 4 GiB, so both fit.
        let (head, tail) = (head_bytes as usize, tail_bytes as usize);
        let lease = self.memory.lease(0).map_err(NotTaken::NoMemory)?;
        let mut partial = Partial { head: Part::new(head), tail: Part::new(tail), head_delivered: false, lease };
        partial.take(id, data)?;
        self.announced_bytes = announced_bytes;
        self.long_under_way += usize::from(bytes >= LONG_BYTES_MIN);
        self.under_way.insert(id, partial);
        Ok(self.complete(id))
    }

    fn more(&mut self, id: u64, data: &[u8]) -> Result<Outcome, NotTaken> {
        let partial = self.under_way.get_mut(&id).ok_or(FrameError::Fragment { id, what: "is not under way" })?;
        partial.take(id, data)?;
        Ok(self.complete(id))
    }

    /// What is now complete of a message.
    fn complete(&mut self, id: u64) -> Outcome {
        let Some(partial) = self.under_way.get_mut(&id) else { return Outcome::Nothing };
        if partial.head.missing > 0 || (partial.tail.missing > 0 && partial.head_delivered) {
            return Outcome::Nothing;
        }
        if partial.tail.missing > 0 {
            partial.head_delivered = true;
            let head = partial.head.finish();
            return Outcome::Deliver(Incoming::Head { id, head, tail_bytes: partial.tail.announced });
        }
        let bytes = (partial.head.announced + partial.tail.announced) as u64;
        let tail = partial.tail.finish();
        let incoming = match partial.head_delivered {
            true => Incoming::Tail { id, tail },
            false => Incoming::Whole(Message { head: partial.head.finish(), tail }),
        };
        self.announced_bytes -= bytes;
        self.long_under_way -= usize::from(bytes >= LONG_BYTES_MIN);
        self.completed = self.under_way.remove(&id).map(|partial| partial.lease);
        Outcome::Deliver(incoming)
    }
}

fn within(limit: &'static str, came: u64, max: u64) -> Result<(), FrameError> {
    if came > max { Err(FrameError::TooMuch { limit, came, max }) } else { Ok(()) }
}
