//! By which way an answer goes, and so who works: decided here and nowhere else.

use catena_wire::SHORT_BYTES_MAX;

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

/// What fits goes in one frame. What does not is written to where its asker wants it, unless the server has more to do than that.
#[must_use]
pub fn carrier(load: Load, policy: &MessagePolicy) -> Carrier {
    let loaded = load.waiting >= policy.loaded_waiting_min || load.unflushed >= policy.loaded_unflushed_bytes_min;
    match load.room {
        _ if load.bytes <= SHORT_BYTES_MAX as u64 => Carrier::Short,
        Some(room) if load.bytes <= room && !loaded => Carrier::Returned,
        _ => Carrier::Long,
    }
}
