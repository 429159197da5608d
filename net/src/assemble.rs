//! From frames to messages: the receiver's half of fragmentation.

use std::collections::HashMap;

use bytes::Bytes;

use crate::config::Limits;
use crate::frame::{Header, Kind, begin_parts, whole_message};
use crate::measure::LONG_BYTES_MIN;
use crate::{Frame, FrameError, Incoming, Message};

/// Smallest piece of memory for a growing part: one typical read.
const GROW_BYTES_MIN: usize = 64 * 1024;

/// What a frame brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to tell yet.
    Nothing,
    /// One thing to tell. A head and its tail may complete in one frame: then it comes as a whole message.
    Deliver(Incoming),
    /// Answer with a pong.
    Ping(u64),
    /// The answer to a ping.
    Pong(u64),
}

/// Puts fragments together, within [`Limits`].
#[derive(Debug)]
pub struct Assembler {
    limits: Limits,
    under_way: HashMap<u64, Partial>,
    announced_bytes: u64,
    /// Messages under way that are long enough to be timed.
    long_under_way: usize,
}

#[derive(Debug)]
struct Partial {
    head: Part,
    tail: Part,
    head_delivered: bool,
}

/// A byte string whose length was announced, and which has come in part.
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

    fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Takes what belongs to this part and gives back the rest.
    fn take<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let (mine, rest) = data.split_at(data.len().min(self.missing));
        let needed = self.bytes.len() + mine.len();
        if needed > self.bytes.capacity() {
            // At most double what has really come, so that an announcement alone costs nothing.
            let target = needed.max(self.bytes.capacity() * 2).max(GROW_BYTES_MIN).min(self.announced);
            self.bytes.reserve_exact(target - self.bytes.len());
        }
        self.bytes.extend_from_slice(mine);
        self.missing -= mine.len();
        rest
    }

    fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes).into()
    }
}

impl Assembler {
    /// An assembler with nothing under way.
    pub fn new(limits: Limits) -> Self {
        Self { limits, under_way: HashMap::new(), announced_bytes: 0, long_under_way: 0 }
    }

    /// Whether a message has come in part.
    pub fn is_mid_message(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// How many messages of at least [`LONG_BYTES_MIN`] have come in part.
    pub(crate) fn long_under_way(&self) -> usize {
        self.long_under_way
    }

    /// Takes one frame.
    ///
    /// # Errors
    /// The frame does not fit what came before it, or a limit. The link cannot go on.
    pub fn accept(&mut self, frame: &Frame) -> Result<Outcome, FrameError> {
        match frame {
            Frame::Whole(message) => Ok(Outcome::Deliver(Incoming::Whole(message.clone()))),
            Frame::Begin { id, head_bytes, tail_bytes, data } => self.begin(*id, *head_bytes, *tail_bytes, data),
            Frame::More { id, data } => self.more(*id, data),
            Frame::Ping { nonce } => Ok(Outcome::Ping(*nonce)),
            Frame::Pong { nonce } => Ok(Outcome::Pong(*nonce)),
        }
    }

    /// The same, with the payload still in the receive buffer.
    pub(crate) fn accept_in_place(&mut self, header: &Header, payload: &[u8]) -> Result<Outcome, FrameError> {
        match header.kind {
            Kind::Whole => Ok(Outcome::Deliver(Incoming::Whole(whole_message(header, payload)))),
            Kind::Begin => {
                let (tail_bytes, data) = begin_parts(payload);
                self.begin(header.id, header.head_bytes, tail_bytes, data)
            }
            Kind::More => self.more(header.id, payload),
            Kind::Ping => Ok(Outcome::Ping(header.id)),
            Kind::Pong => Ok(Outcome::Pong(header.id)),
        }
    }

    fn begin(&mut self, id: u64, head_bytes: u32, tail_bytes: u64, data: &[u8]) -> Result<Outcome, FrameError> {
        let bytes = u64::from(head_bytes).saturating_add(tail_bytes);
        let limits = &self.limits;
        if bytes > limits.message_bytes_max {
            return Err(FrameError::MessageTooLong { bytes, bytes_max: limits.message_bytes_max });
        }
        if self.under_way.contains_key(&id) {
            return Err(FrameError::DuplicateMessage { id });
        }
        if self.under_way.len() >= limits.fragmented_messages_max as usize {
            return Err(FrameError::TooManyMessages { messages_max: limits.fragmented_messages_max });
        }
        let announced_bytes = self.announced_bytes.saturating_add(bytes);
        if announced_bytes > limits.receive_bytes_max {
            return Err(FrameError::ReceiveTooMuch { bytes: announced_bytes, bytes_max: limits.receive_bytes_max });
        }
        let (Ok(head), Ok(tail)) = (usize::try_from(head_bytes), usize::try_from(tail_bytes)) else {
            return Err(FrameError::MessageTooLong { bytes, bytes_max: limits.message_bytes_max });
        };
        self.announced_bytes = announced_bytes;
        self.long_under_way += usize::from(bytes >= LONG_BYTES_MIN);
        self.under_way.insert(id, Partial { head: Part::new(head), tail: Part::new(tail), head_delivered: false });
        self.more(id, data)
    }

    fn more(&mut self, id: u64, data: &[u8]) -> Result<Outcome, FrameError> {
        let partial = self.under_way.get_mut(&id).ok_or(FrameError::UnknownMessage { id })?;
        let rest = partial.head.take(data);
        let rest = partial.tail.take(rest);
        if !rest.is_empty() {
            return Err(FrameError::Overflow { id });
        }
        if partial.tail.is_complete() && partial.head.is_complete() {
            return Ok(Outcome::Deliver(self.finish(id)));
        }
        if partial.head.is_complete() && !partial.head_delivered {
            partial.head_delivered = true;
            let head = partial.head.finish();
            return Ok(Outcome::Deliver(Incoming::Head { id, head, tail_bytes: partial.tail.announced }));
        }
        Ok(Outcome::Nothing)
    }

    fn finish(&mut self, id: u64) -> Incoming {
        let Some(mut partial) = self.under_way.remove(&id) else { return Incoming::Whole(Message::default()) };
        let bytes = (partial.head.announced + partial.tail.announced) as u64;
        self.announced_bytes -= bytes;
        self.long_under_way -= usize::from(bytes >= LONG_BYTES_MIN);
        let tail = partial.tail.finish();
        match partial.head_delivered {
            true => Incoming::Tail { id, tail },
            false => Incoming::Whole(Message { head: partial.head.finish(), tail }),
        }
    }
}
