//! Which frame goes next: pong, ping, small messages in order, then one fragment of each bulk message in turn.
//!
//! Pure: no clock, no socket, no lock. How many bytes may wait here is for the link's lanes to say.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use crate::config::Limits;
use crate::frame::{BEGIN_BYTES, HEADER_BYTES, Header, Kind};
use crate::message::{Lane, MEDIUM_BYTES_MAX, Message};

const PREFIX_BYTES: usize = HEADER_BYTES + BEGIN_BYTES;

/// Room in a lane that is given back when a frame has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) lane: Lane,
    pub(crate) bytes: u32,
}

/// A frame on its way out, perhaps written in part.
#[derive(Debug)]
pub(crate) struct OutFrame {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    parts: [Bytes; 2],
    written: usize,
    /// The last frame of a message brings the message's ticket.
    pub(crate) ticket: Option<Ticket>,
}

impl OutFrame {
    /// Bytes that are no frame: the hello.
    pub(crate) fn raw(bytes: Bytes) -> Self {
        let parts = [bytes, Bytes::new()];
        Self { prefix: [0; PREFIX_BYTES], prefix_bytes: 0, parts, written: 0, ticket: None }
    }

    fn bare(kind: Kind, id: u64) -> Self {
        Self::new(kind, id, 0, None, [Bytes::new(), Bytes::new()])
    }

    fn whole(message: Message, ticket: Ticket) -> Self {
        let head_bytes = message.head.len() as u32;
        let frame = Self::new(Kind::Whole, 0, head_bytes, None, [message.head, message.tail]);
        Self { ticket: Some(ticket), ..frame }
    }

    fn new(kind: Kind, id: u64, head_bytes: u32, tail_bytes: Option<u64>, parts: [Bytes; 2]) -> Self {
        let begin_bytes = if tail_bytes.is_some() { BEGIN_BYTES } else { 0 };
        let payload_bytes = (begin_bytes + parts[0].len() + parts[1].len()) as u32;
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..HEADER_BYTES].copy_from_slice(&Header { kind, payload_bytes, head_bytes, id }.encode());
        prefix[HEADER_BYTES..].copy_from_slice(&tail_bytes.unwrap_or_default().to_le_bytes());
        Self { prefix, prefix_bytes: HEADER_BYTES + begin_bytes, parts, written: 0, ticket: None }
    }

    /// Bytes not yet written.
    pub(crate) fn left(&self) -> usize {
        self.prefix_bytes + self.parts[0].len() + self.parts[1].len() - self.written
    }

    /// Calls `push` with each piece not yet written, at most three, until it says that there is no room.
    pub(crate) fn slices<'a>(&'a self, mut push: impl FnMut(IoSlice<'a>) -> bool) -> bool {
        let mut skip = self.written;
        for piece in [&self.prefix[..self.prefix_bytes], &self.parts[0], &self.parts[1]] {
            let left = &piece[skip.min(piece.len())..];
            skip = skip.saturating_sub(piece.len());
            if !left.is_empty() && !push(IoSlice::new(left)) {
                return false;
            }
        }
        true
    }

    /// Marks up to `bytes` as written; says how many.
    pub(crate) fn advance(&mut self, bytes: usize) -> usize {
        let step = bytes.min(self.left());
        self.written += step;
        step
    }
}

/// A message that goes in fragments.
#[derive(Debug)]
struct Bulk {
    id: u64,
    head: Bytes,
    tail: Bytes,
    bytes: u64,
    begun: bool,
    ticket: Ticket,
}

impl Bulk {
    /// The next fragment, with at most `data_bytes_max` of the message, and whether it was the last.
    fn fragment(&mut self, data_bytes_max: usize) -> (OutFrame, bool) {
        let (head_bytes, tail_bytes) = (self.head.len() as u32, self.tail.len() as u64);
        let from_head = data_bytes_max.min(self.head.len());
        let from_tail = (data_bytes_max - from_head).min(self.tail.len());
        let parts = [self.head.split_to(from_head), self.tail.split_to(from_tail)];
        let mut frame = match std::mem::replace(&mut self.begun, true) {
            false => OutFrame::new(Kind::Begin, self.id, head_bytes, Some(tail_bytes), parts),
            true => OutFrame::new(Kind::More, self.id, 0, None, parts),
        };
        let last = self.head.is_empty() && self.tail.is_empty();
        frame.ticket = last.then_some(self.ticket);
        (frame, last)
    }
}

/// What waits to go out on one link.
#[derive(Debug)]
pub(crate) struct Outbox {
    limits: Limits,
    pong: Option<u64>,
    ping: Option<u64>,
    small: VecDeque<OutFrame>,
    /// How many of `small` cannot wait for company.
    urgent: usize,
    medium: VecDeque<Bulk>,
    large: VecDeque<Bulk>,
    /// Messages under way, next to go first.
    active: VecDeque<Bulk>,
    active_bytes: u64,
    active_large: usize,
    next_id: u64,
}

impl Outbox {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            pong: None,
            ping: None,
            small: VecDeque::new(),
            urgent: 0,
            medium: VecDeque::new(),
            large: VecDeque::new(),
            active: VecDeque::new(),
            active_bytes: 0,
            active_large: 0,
            next_id: 1,
        }
    }

    /// From now on keeps to `limits`.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(crate) fn push(&mut self, message: Message, ticket: Ticket, lazy: bool) {
        let queue = match ticket.lane {
            Lane::Small => {
                self.urgent += usize::from(!lazy);
                return self.small.push_back(OutFrame::whole(message, ticket));
            }
            Lane::Medium => &mut self.medium,
            Lane::Large => &mut self.large,
        };
        let bytes = message.bytes() as u64;
        queue.push_back(Bulk { id: self.next_id, head: message.head, tail: message.tail, bytes, begun: false, ticket });
        self.next_id += 1;
    }

    /// Asks for an answer. Only the last of several waits: a peer that floods gets one.
    pub(crate) fn push_pong(&mut self, nonce: u64) {
        self.pong = Some(nonce);
    }

    pub(crate) fn push_ping(&mut self, nonce: u64) {
        self.ping = Some(nonce);
    }

    /// Nothing waits, not even lazy messages.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_small() && self.active.is_empty() && self.medium.is_empty() && self.large.is_empty()
    }

    /// Something waits that is not a fragment.
    pub(crate) fn has_small(&self) -> bool {
        self.pong.is_some() || self.ping.is_some() || !self.small.is_empty()
    }

    /// Only lazy messages wait.
    pub(crate) fn is_only_lazy(&self) -> bool {
        self.urgent == 0 && !self.small.is_empty() && self.pong.is_none() && self.ping.is_none() && !self.has_bulk()
    }

    fn has_bulk(&self) -> bool {
        !(self.active.is_empty() && self.medium.is_empty() && self.large.is_empty())
    }

    /// The next frame that is not a fragment.
    pub(crate) fn next_small(&mut self) -> Option<OutFrame> {
        if let Some(nonce) = self.pong.take() {
            return Some(OutFrame::bare(Kind::Pong, nonce));
        }
        if let Some(nonce) = self.ping.take() {
            return Some(OutFrame::bare(Kind::Ping, nonce));
        }
        let frame = self.small.pop_front();
        if self.small.is_empty() {
            self.urgent = 0;
        }
        frame
    }

    /// The next fragment, of at most `frame_bytes_max` in all.
    pub(crate) fn next_fragment(&mut self, frame_bytes_max: usize) -> Option<OutFrame> {
        self.activate();
        let mut bulk = self.active.pop_front()?;
        let payload_bytes_max = frame_bytes_max.saturating_sub(HEADER_BYTES).min(self.limits.frame_bytes_max as usize);
        let (frame, last) = bulk.fragment(payload_bytes_max.saturating_sub(BEGIN_BYTES).max(1));
        if last {
            self.active_bytes -= bulk.bytes;
            self.active_large -= usize::from(bulk.ticket.lane == Lane::Large);
        } else {
            self.active.push_back(bulk);
        }
        Some(frame)
    }

    /// Starts what the peer has room for. Large messages take at most half of the places, and leave the bytes that
    /// medium ones may need, so that a continuation never waits for a transfer to end.
    fn activate(&mut self) {
        let places = self.limits.fragmented_messages_max as usize;
        let room = |bytes: u64, active: u64| active.saturating_add(bytes) <= self.limits.receive_bytes_max;
        while self.active.len() < places && self.medium.front().is_some_and(|b| room(b.bytes, self.active_bytes)) {
            let Some(bulk) = self.medium.pop_front() else { break };
            self.active_bytes += bulk.bytes;
            // At the front: it takes its first turn at once.
            self.active.push_front(bulk);
        }
        let reserve = places as u64 * MEDIUM_BYTES_MAX as u64;
        while self.active.len() < places
            && self.active_large < places / 2
            && self.large.front().is_some_and(|b| room(b.bytes.saturating_add(reserve), self.active_bytes))
        {
            let Some(bulk) = self.large.pop_front() else { break };
            self.active_bytes += bulk.bytes;
            self.active_large += 1;
            self.active.push_back(bulk);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::frame::begin_parts;

    fn message(head: usize, tail: usize) -> Message {
        Message::new(vec![1; head], vec![2; tail])
    }

    fn push(outbox: &mut Outbox, message: Message) {
        let ticket = Ticket { lane: message.lane(), bytes: message.bytes() as u32 };
        outbox.push(message, ticket, false);
    }

    fn next(outbox: &mut Outbox) -> Option<(Header, Vec<u8>)> {
        let frame = outbox.next_small().or_else(|| outbox.next_fragment(16 * 1024))?;
        let mut bytes = Vec::new();
        frame.slices(|s| {
            bytes.extend_from_slice(&s);
            true
        });
        let header = Header::decode(&bytes, &Limits::default()).unwrap().unwrap();
        Some((header, bytes.split_off(HEADER_BYTES)))
    }

    #[test]
    fn small_overtakes_bulk_and_bulk_takes_turns() {
        let mut outbox = Outbox::new(Limits::default());
        push(&mut outbox, message(10, 3 << 20));
        push(&mut outbox, message(10, 2 << 20));
        let (first, payload) = next(&mut outbox).unwrap();
        assert_eq!((first.kind, first.id, begin_parts(&payload).0), (Kind::Begin, 1, 3 << 20));
        push(&mut outbox, message(5, 0));
        outbox.push_ping(7);
        outbox.push_pong(8);
        let order: Vec<_> = (0..6).map(|_| next(&mut outbox).unwrap().0).map(|h| (h.kind, h.id)).collect();
        let expected =
            [(Kind::Pong, 8), (Kind::Ping, 7), (Kind::Whole, 0), (Kind::Begin, 2), (Kind::More, 1), (Kind::More, 2)];
        assert_eq!(order, expected);
    }

    #[test]
    fn medium_does_not_wait_for_large_ones_under_way() {
        let mut outbox = Outbox::new(Limits::default());
        for _ in 0..100 {
            push(&mut outbox, message(0, 20 << 20));
        }
        next(&mut outbox).unwrap();
        push(&mut outbox, message(100, 20_000));
        let (begin, _) = next(&mut outbox).unwrap();
        assert_eq!((begin.kind, begin.id), (Kind::Begin, 101), "its first turn comes at once");
        let turns = (0..50).position(|_| next(&mut outbox).unwrap().0.id == 101).unwrap();
        assert!(turns <= Limits::default().fragmented_messages_max as usize / 2, "{turns}");
    }

    #[test]
    fn keeps_to_the_peers_limits() {
        let limits = Limits::FLOOR;
        let mut outbox = Outbox::new(limits);
        for _ in 0..10 {
            push(&mut outbox, message(0, 1 << 20));
        }
        let (mut begun, mut ended, mut bytes) = (0, 0, 0_usize);
        while let Some((header, payload)) = next(&mut outbox) {
            begun += usize::from(header.kind == Kind::Begin);
            bytes += if header.kind == Kind::Begin { payload.len() - BEGIN_BYTES } else { payload.len() };
            ended = ended.max(bytes >> 20);
            assert!(begun - bytes / (1 << 20) <= limits.fragmented_messages_max as usize);
            assert!(header.payload_bytes <= limits.frame_bytes_max);
        }
        assert_eq!((begun, bytes), (10, 10 << 20));
    }

    #[test]
    fn a_pong_flood_keeps_one() {
        let mut outbox = Outbox::new(Limits::default());
        (0..1000).for_each(|nonce| outbox.push_pong(nonce));
        assert_eq!(next(&mut outbox).unwrap().0.id, 999);
        assert!(outbox.is_empty());
    }
}
