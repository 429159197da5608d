//! Which frame goes next: pong, ping, small messages in order, then one fragment of each bulk message in turn; of the parts of something long only one is under
//! way at a time.
//!
//! Pure: no clock, no socket, no lock. The link's lanes bound how many bytes may wait here.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use crate::Frame;
use crate::config::Limits;
use crate::frame::PREFIX_BYTES;
use crate::message::{Lane, MEDIUM_BYTES_MAX, Message};

/// Room in the queue, given back when a frame has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) lane: Lane,
    pub(crate) bytes: u32,
    /// Whether it is beyond the lane's bound.
    pub(crate) over: bool,
    /// Whether it is a part of something long: only one of these is under way at a time. Only ever of the medium lane.
    pub(crate) part: bool,
}

/// A frame on its way out, perhaps written in part.
#[derive(Debug)]
pub(crate) struct OutFrame {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    parts: [Bytes; 2],
    written: usize,
    /// The ticket of the message, if this is its last frame.
    pub(crate) ticket: Option<Ticket>,
}

impl OutFrame {
    /// Bytes that are not a frame: the hello.
    pub(crate) fn raw(bytes: Bytes) -> Self {
        let parts = [bytes, Bytes::new()];
        Self { prefix: [0; PREFIX_BYTES], prefix_bytes: 0, parts, written: 0, ticket: None }
    }

    fn new(frame: Frame, ticket: Option<Ticket>) -> Self {
        let (prefix, prefix_bytes, parts) = frame.into_parts();
        Self { prefix, prefix_bytes, parts, written: 0, ticket }
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

    /// Notes that up to `bytes` more are written; returns how many.
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
    /// The next fragment, with at most `data_bytes_max` of head or tail, and whether it was the last.
    fn fragment(&mut self, data_bytes_max: usize) -> (OutFrame, bool) {
        if !self.begun && self.head.len() + self.tail.len() <= data_bytes_max {
            let message = Message { head: std::mem::take(&mut self.head), tail: std::mem::take(&mut self.tail) };
            return (OutFrame::new(Frame::Whole(message), Some(self.ticket)), true);
        }
        let (head_bytes, tail_bytes) = (self.head.len() as u32, self.tail.len() as u64);
        let part = if self.head.is_empty() { &mut self.tail } else { &mut self.head };
        let data = part.split_to(data_bytes_max.min(part.len()));
        let frame = match std::mem::replace(&mut self.begun, true) {
            false => Frame::Begin { id: self.id, head_bytes, tail_bytes, data },
            true => Frame::More { id: self.id, data },
        };
        let last = self.head.is_empty() && self.tail.is_empty();
        (OutFrame::new(frame, last.then_some(self.ticket)), last)
    }
}

/// What waits to go out on one link.
#[derive(Debug)]
pub(crate) struct Outbox {
    limits: Limits,
    pong: Option<u64>,
    ping: Option<u64>,
    small: VecDeque<OutFrame>,
    /// How many of `small` must not wait for others.
    urgent: usize,
    medium: VecDeque<Bulk>,
    large: VecDeque<Bulk>,
    /// Messages of the medium lane that are parts of something long.
    parts: VecDeque<Bulk>,
    /// Messages under way; the front has the next turn.
    active: VecDeque<Bulk>,
    active_bytes: u64,
    active_large: usize,
    part_active: bool,
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
            parts: VecDeque::new(),
            active: VecDeque::new(),
            active_bytes: 0,
            active_large: 0,
            part_active: false,
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
                return self.small.push_back(OutFrame::new(Frame::Whole(message), Some(ticket)));
            }
            Lane::Medium if ticket.part => &mut self.parts,
            Lane::Medium => &mut self.medium,
            Lane::Large => &mut self.large,
        };
        let bytes = message.bytes() as u64;
        queue.push_back(Bulk { id: self.next_id, head: message.head, tail: message.tail, bytes, begun: false, ticket });
        self.next_id += 1;
    }

    /// Asks for a pong to be sent. Only the last of several waits: a peer that floods gets one.
    pub(crate) fn push_pong(&mut self, nonce: u64) {
        self.pong = Some(nonce);
    }

    pub(crate) fn push_ping(&mut self, nonce: u64) {
        self.ping = Some(nonce);
    }

    /// Whether nothing waits, not even lazy messages.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_small() && !self.has_bulk()
    }

    /// Whether something waits that is not a fragment.
    pub(crate) fn has_small(&self) -> bool {
        self.pong.is_some() || self.ping.is_some() || !self.small.is_empty()
    }

    /// Whether only lazy messages wait.
    pub(crate) fn is_only_lazy(&self) -> bool {
        self.urgent == 0 && !self.small.is_empty() && self.pong.is_none() && self.ping.is_none() && !self.has_bulk()
    }

    fn has_bulk(&self) -> bool {
        !(self.active.is_empty() && self.medium.is_empty() && self.large.is_empty() && self.parts.is_empty())
    }

    /// The next frame that is not a fragment.
    pub(crate) fn next_small(&mut self) -> Option<OutFrame> {
        if let Some(nonce) = self.pong.take() {
            return Some(OutFrame::new(Frame::Pong { nonce }, None));
        }
        if let Some(nonce) = self.ping.take() {
            return Some(OutFrame::new(Frame::Ping { nonce }, None));
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
        let bytes_max = frame_bytes_max.min(self.limits.frame_bytes_max as usize).saturating_sub(PREFIX_BYTES);
        let (frame, last) = bulk.fragment(bytes_max.max(1));
        if last {
            self.active_bytes -= bulk.bytes;
            self.active_large -= usize::from(bulk.ticket.lane == Lane::Large);
            self.part_active &= !bulk.ticket.part;
        } else {
            self.active.push_back(bulk);
        }
        Some(frame)
    }

    /// Starts messages for which the peer has room. Large ones take at most half of the places, and leave free the bytes that medium ones may need, so that a
    /// continuation never waits for a transfer to end.
    fn activate(&mut self) {
        let places = self.limits.fragmented_messages_max as usize;
        let room = |bytes: u64, active: u64| active.saturating_add(bytes) <= self.limits.receive_bytes_max;
        // One at a time: parts that took turns would all be complete only at the end, and a receiver that asks for the next part when one has come would leave
        // the link idle for a round trip.
        if self.active.len() < places
            && !self.part_active
            && self.parts.front().is_some_and(|b| room(b.bytes, self.active_bytes))
            && let Some(bulk) = self.parts.pop_front()
        {
            self.active_bytes += bulk.bytes;
            self.part_active = true;
            self.active.push_back(bulk);
        }
        // One per turn, and at the front: each gets its first turn at once, in the order in which they came.
        if self.active.len() < places
            && self.medium.front().is_some_and(|b| room(b.bytes, self.active_bytes))
            && let Some(bulk) = self.medium.pop_front()
        {
            self.active_bytes += bulk.bytes;
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

    fn message(head: usize, tail: usize) -> Message {
        Message::new(vec![1; head], vec![2; tail])
    }

    fn push(outbox: &mut Outbox, message: Message) {
        let ticket = Ticket { lane: message.lane(), bytes: message.bytes() as u32, over: false, part: false };
        outbox.push(message, ticket, false);
    }

    fn push_part(outbox: &mut Outbox, part: Message) {
        let ticket = Ticket { lane: Lane::Medium, bytes: part.bytes() as u32, over: false, part: true };
        outbox.push(part, ticket, false);
    }

    fn next(outbox: &mut Outbox) -> Option<Frame> {
        let frame = outbox.next_small().or_else(|| outbox.next_fragment(16 * 1024))?;
        let mut bytes = bytes::BytesMut::new();
        frame.slices(|s| {
            bytes.extend_from_slice(&s);
            true
        });
        let frame = Frame::decode(&mut bytes, &Limits::FLOOR).unwrap().unwrap();
        assert!(bytes.is_empty());
        Some(frame)
    }

    /// A frame's letter, and its number or nonce.
    fn next_kind(outbox: &mut Outbox) -> (char, u64) {
        match next(outbox).unwrap() {
            Frame::Whole(_) => ('w', 0),
            Frame::Begin { id, .. } => ('b', id),
            Frame::More { id, .. } => ('m', id),
            Frame::Ping { nonce } => ('?', nonce),
            Frame::Pong { nonce } => ('!', nonce),
        }
    }

    #[test]
    fn small_overtakes_bulk_and_bulk_takes_turns() {
        let mut outbox = Outbox::new(Limits::default());
        push(&mut outbox, message(10, 3 << 20));
        push(&mut outbox, message(10, 2 << 20));
        assert!(matches!(next(&mut outbox), Some(Frame::Begin { id: 1, tail_bytes: 3_145_728, .. })));
        push(&mut outbox, message(5, 0));
        outbox.push_ping(7);
        outbox.push_pong(8);
        let order: Vec<_> = (0..6).map(|_| next_kind(&mut outbox)).collect();
        assert_eq!(order, [('!', 8), ('?', 7), ('w', 0), ('b', 2), ('m', 1), ('m', 2)]);
    }

    #[test]
    fn small_parts_of_bulk_go_whole_in_their_order_and_are_overtaken() {
        let mut outbox = Outbox::new(Limits::default());
        push(&mut outbox, message(10, 3 << 20));
        next(&mut outbox).unwrap();
        for tail in [8_000, 16_000] {
            push_part(&mut outbox, message(10, tail));
        }
        push(&mut outbox, message(5, 0));
        let mut tails = Vec::new();
        for _ in 0..5 {
            match next(&mut outbox).unwrap() {
                Frame::Whole(message) => tails.push(message.tail.len()),
                Frame::More { id: 1, .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(tails, [0, 8_000, 16_000]);
    }

    #[test]
    fn parts_go_one_after_the_other_and_take_turns_with_other_bulk() {
        let mut outbox = Outbox::new(Limits::default());
        // Each is three fragments.
        (0..3).for_each(|_| push_part(&mut outbox, message(0, 40_000)));
        let order: Vec<_> = (0..4).map(|_| next_kind(&mut outbox)).collect();
        assert_eq!(order, [('b', 1), ('m', 1), ('m', 1), ('b', 2)]);
        push(&mut outbox, message(0, 40_000));
        let order: Vec<_> = (0..8).map(|_| next_kind(&mut outbox)).collect();
        assert_eq!(order, [('b', 4), ('m', 2), ('m', 4), ('m', 2), ('m', 4), ('b', 3), ('m', 3), ('m', 3)]);
        assert!(outbox.is_empty() && outbox.active_bytes == 0);
    }

    #[test]
    fn medium_does_not_wait_for_large_ones_under_way() {
        let mut outbox = Outbox::new(Limits::default());
        for _ in 0..100 {
            push(&mut outbox, message(0, 20 << 20));
        }
        next(&mut outbox).unwrap();
        push(&mut outbox, message(100, 20_000));
        assert_eq!(next_kind(&mut outbox), ('b', 101), "its first turn comes at once");
        let turns = (0..50).position(|_| next_kind(&mut outbox).1 == 101).unwrap();
        assert!(turns <= Limits::default().fragmented_messages_max as usize / 2, "{turns}");
    }

    #[test]
    fn keeps_to_the_peers_limits() {
        let limits = Limits::FLOOR;
        let mut outbox = Outbox::new(limits);
        for _ in 0..10 {
            push(&mut outbox, message(0, 1 << 20));
        }
        let (mut begun, mut bytes) = (0, 0_usize);
        while let Some(frame) = next(&mut outbox) {
            begun += usize::from(matches!(frame, Frame::Begin { .. }));
            if let Frame::Begin { data, .. } | Frame::More { data, .. } = frame {
                bytes += data.len();
            }
            assert!(begun - bytes / (1 << 20) <= limits.fragmented_messages_max as usize);
        }
        assert_eq!((begun, bytes), (10, 10 << 20));
    }

    #[test]
    fn a_pong_flood_keeps_one() {
        let mut outbox = Outbox::new(Limits::default());
        (0..1000).for_each(|nonce| outbox.push_pong(nonce));
        assert_eq!(next_kind(&mut outbox), ('!', 999));
        assert!(outbox.is_empty());
    }
}
