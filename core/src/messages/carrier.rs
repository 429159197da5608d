//! By which way an answer goes, and so who works: decided here and nowhere else.

use catena_wire::{Buffer, SHORT_BYTES_MAX};

use super::policy::MessagePolicy;

/// The way of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// In one frame.
    Short,
    /// Written into the return buffer of who asked: the server works.
    Returned,
    /// Left with the server, to be read: who asked works.
    Long,
}

/// What decides it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The answer's bytes.
    pub bytes: u64,
    /// Bytes that the return buffer has room for, if there is one.
    pub room: Option<u64>,
    /// Messages that wait for the service.
    pub waiting: usize,
    /// Bytes written to the partner and not flushed.
    pub unflushed: u64,
}

/// Where the bytes of a buffer lie for a partner: in memory that it may map, if it is on this host and the buffer leaves room there for others; else they are
/// asked for by the link. Mapping costs once per partner; after it a byte costs a copy there and a copy back, by the link twice that and a frame for each piece.
#[must_use]
pub const fn is_lent(near: bool, bytes: u64, policy: &MessagePolicy) -> bool {
    near && bytes > 0 && bytes <= policy.lent_bytes_per_peer_max / 4
}

/// Whether a call or result lies in memory that is lent to its receiver, and a small message by the link says where. On one host a byte costs two copies so, where
/// by the link it costs four and a frame for each piece. Between hosts the receiver would have to ask for the bytes, and they would come by the same link a round
/// trip later: so there they go with the message. Hops go by the link always: their receivers begin with the head while the state is on its way.
#[must_use]
pub const fn is_carried(near: bool, bytes: u64, policy: &MessagePolicy) -> bool {
    bytes >= policy.carried_bytes_min && is_lent(near, bytes, policy)
}

/// Whether a buffer can be a message that lies where its receiver maps it: inside of what is lent, and no longer than a message may be.
#[must_use]
pub fn can_be_carried(buffer: &Buffer, message_bytes_max: u64) -> bool {
    let Buffer { at, bytes, lent: Some(lent) } = buffer else { return false };
    let inside = at.offset.checked_add(*bytes).is_some_and(|end| end <= lent.bytes);
    inside && at.grant.is_some() && (1..=message_bytes_max).contains(bytes)
}

/// What fits goes in one frame. What does not is written to where whoever asked wants it, unless the server has more to do than that.
#[must_use]
pub fn carrier(load: Load, policy: &MessagePolicy) -> Carrier {
    let loaded = load.waiting >= policy.loaded_waiting_min || load.unflushed >= policy.loaded_unflushed_bytes_min;
    match load.room {
        _ if load.bytes <= SHORT_BYTES_MAX as u64 => Carrier::Short,
        Some(room) if load.bytes <= room && !loaded => Carrier::Returned,
        _ => Carrier::Long,
    }
}
