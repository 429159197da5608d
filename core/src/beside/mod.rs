//! Bytes that go beside a hop or call, from the owner of a blob to the callee that will read it, before the callee has asked: the sender of the call tells the
//! owner to push them, when it sends the call.
//!
//! A push is a READ whose answer goes ahead of it. The callee READs as if nothing were pushed. The owner sends each piece once, on whichever comes first, the
//! callee's READ or the sender's request to push, and answers the other that it has done so. So a piece leaves its owner no later than with the better of
//! push and pull, and crosses once. Nothing depends on a push: a pushed piece that is not there is READ again.
//!
//! | part | what it knows |
//! | --- | --- |
//! | `pushed` | at the owner: which pieces went to whom, and who has asked for them since |
//! | `arrivals` | at the callee: what came before it was asked for, and who waits for what |
//! | `pieces` | what both keep: pieces within shares, and for how long |
//!
//! Both are bounded for each address, in bytes, pieces and time: a callee that never reads costs its link that many bytes once, and a stranger that has an owner push
//! to a third node costs that node no more.

mod arrivals;
mod pieces;
mod pushed;

use catena_wire::At;

pub use arrivals::{Arrivals, Came};
pub use pushed::Pushed;

/// Limit on the bytes of one blob that are pushed, and that are fetched before anybody asks.
pub const PUSH_BYTES_MAX: u64 = 4 << 20;
/// Limit on the bytes pushed to the callees at one address that they have not asked for; and on the bytes of one address's owners at a callee that nobody has
/// asked for yet.
pub const PUSHED_BYTES_PER_PEER_MAX: u64 = 8 << 20;
/// The same, in pieces.
pub const PUSHED_PIECES_PER_PEER_MAX: usize = 256;
/// How long owner and callee remember a piece that was pushed, microseconds.
pub const PUSHED_LASTS_US: u64 = 10_000_000;

/// Whether `bytes` bytes of a blob are pushed to a callee beside a call. Not on one host: there the answer to a READ lies in memory that the callee maps, and
/// the way to the owner is too short for a push to save time.
#[must_use]
pub const fn is_pushed(near: bool, bytes: u64) -> bool {
    !near && bytes > 0
}

/// A part of a segment, as it is requested.
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
    /// How many bytes.
    pub count: u32,
}

impl Piece {
    /// `count` bytes from `at` on; `None` if `at` is not reached by a grant.
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

    /// The pieces of a range that are pushed, each of the size in which the range is read.
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
