//! Which way an answer goes, and so whether the server or the asker does the work: decided here and nowhere else.

use catena_wire::{Buffer, SHORT_BYTES_MAX};

use super::policy::MessagePolicy;

/// The way of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// In one frame.
    Short,
    /// Written into the asker's return buffer: the server does the work.
    Returned,
    /// Left with the server, to be read: the asker does the work.
    Long,
}

/// What the decision depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The answer's bytes.
    pub bytes: u64,
    /// Bytes that fit into the return buffer, if there is one.
    pub room: Option<u64>,
    /// Messages that wait for the service.
    pub waiting: usize,
    /// Bytes written to the partner and not flushed.
    pub unflushed: u64,
}

/// Whether a buffer's bytes lie in memory that a partner may map: if both are on one host and the buffer leaves room there for others. Else they are requested
/// by the link. Mapping costs once per partner; then a byte costs a copy in and a copy out; by the link twice that, and a frame for each piece.
#[must_use]
pub const fn is_lent(near: bool, bytes: u64, policy: &MessagePolicy) -> bool {
    near && bytes > 0 && bytes <= policy.lent_bytes_per_peer_max / 4
}

/// Whether a call or result lies in memory lent to its receiver, while a small message by the link says where. On one host a byte then costs two copies, not
/// four and a frame for each piece as by the link. Between hosts the receiver would have to ask for the bytes, and get them by the same link a round trip
/// later: so there they go with the message. Hops always go by the link: their receivers begin with the head while the state is on its way.
#[must_use]
pub const fn is_carried(near: bool, bytes: u64, policy: &MessagePolicy) -> bool {
    bytes >= policy.carried_bytes_min && is_lent(near, bytes, policy)
}

/// Whether a buffer can be a message that its receiver maps: it lies within what is lent, and is no longer than a message may be.
#[must_use]
pub fn can_be_carried(buffer: &Buffer, message_bytes_max: u64) -> bool {
    let Buffer { at, bytes, lent: Some(lent) } = buffer else { return false };
    let inside = at.offset.checked_add(*bytes).is_some_and(|end| end <= lent.bytes);
    inside && at.grant.is_some() && (1..=message_bytes_max).contains(bytes)
}

/// What fits goes in one frame. Other answers are written to where the asker wants them, unless the server is loaded.
#[must_use]
pub fn carrier(load: Load, policy: &MessagePolicy) -> Carrier {
    let loaded = load.waiting >= policy.loaded_waiting_min || load.unflushed >= policy.loaded_unflushed_bytes_min;
    match load.room {
        _ if load.bytes <= SHORT_BYTES_MAX as u64 => Carrier::Short,
        Some(room) if load.bytes <= room && !loaded => Carrier::Returned,
        _ => Carrier::Long,
    }
}
