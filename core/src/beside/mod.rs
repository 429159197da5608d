//! Bytes that go beside a hop or call, from the owner of a blob to the callee that will read it, before the callee has asked: whoever sends the call tells the
//! owner at that moment.
//!
//! A push is a READ whose answer goes ahead of it. The callee READs as if nobody pushed; the owner sends each piece once, when the first of the two asks for it,
//! and says to the other that it has. So a piece leaves its owner no later than by the better of push and pull, and crosses once. Nobody depends on it: what was
//! pushed and is not there is READ again.
//!
//! | part | what it knows |
//! | --- | --- |
//! | `pushed` | at the owner: which pieces went to whom, and who has asked for them since |
//! | `arrivals` | at the callee: what came before it was asked for, and who waits for what |
//!
//! Both are bounded for each partner, in bytes and time: a callee that never reads costs its link so many bytes once, and a stranger who has an owner push to
//! somebody else costs that one no more.

mod arrivals;
mod pushed;

use catena_wire::At;

pub use arrivals::{Arrivals, Came};
pub use pushed::Pushed;

/// Bytes of one blob that are pushed, and fetched before anybody asks.
pub const PUSH_BYTES_MAX: u64 = 4 << 20;
/// Bytes that are pushed to one callee and have not been asked for; and that one owner's may take where nobody has asked for them yet.
pub const PUSHED_BYTES_PER_PEER_MAX: u64 = 8 << 20;
/// How long a piece that was pushed is remembered by both, microseconds.
pub const PUSHED_LASTS_US: u64 = 10_000_000;

/// Whether so many bytes of a blob go to a callee beside a call. Not on one host: there the answer to a READ lies in memory that the callee maps, and the way to
/// its owner takes no time that is worth a message.
#[must_use]
pub const fn is_pushed(near: bool, bytes: u64) -> bool {
    !near && bytes > 0
}

/// A part of a segment, as it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Piece {
    /// The segment's number at its owner.
    pub number: u32,
    /// Its generation.
    pub generation: u64,
    /// The grant by which it is read.
    pub grant: u64,
    /// The first byte.
    pub offset: u64,
    /// So many bytes.
    pub count: u32,
}

impl Piece {
    /// So many bytes from there on; `None`: not by a grant.
    #[must_use]
    pub fn of(at: &At, count: u32) -> Option<Self> {
        let At { number, generation, offset, grant } = *at;
        Some(Self { number, generation, grant: grant?, offset, count })
    }

    /// Where it begins.
    #[must_use]
    pub const fn at(&self) -> At {
        At { number: self.number, generation: self.generation, offset: self.offset, grant: Some(self.grant) }
    }

    /// What of a range is pushed, in pieces of so many bytes as it is read in.
    pub fn pushed_of(at: At, bytes: u64, piece_bytes: u32) -> impl Iterator<Item = Self> {
        let end = at.offset.saturating_add(bytes.min(PUSH_BYTES_MAX));
        let step = u64::from(piece_bytes.max(1));
        (0..).map_while(move |index: u64| {
            let offset = at.offset.checked_add(index.checked_mul(step)?)?;
            let count = end.checked_sub(offset)?.min(step);
            Self::of(&At { offset, ..at }, u32::try_from(count).ok().filter(|count| *count > 0)?)
        })
    }
}
