//! The memory of segments: what an owner exports, and what others on the same host may share.
//!
//! This crate knows memory and nothing else: no sockets, no names, no rights of anybody. Bytes are reached through [`Memory`] only, which checks
//! bounds and touches shared bytes by atomic words: whatever another process does with them, the worst is other bytes. Nothing is parsed in place, and
//! since the size of what is mapped is sealed, no access can fault.
//!
//! - An aligned word of 8 bytes is never torn, in blocks of any size: a block is a row of such words, each copied whole, in no promised order.
//! - A write never touches a byte beside its range, not even when it begins or ends within a word.
//! - What was written before a word was is seen by whoever has read that word, in an access of its own (release and acquire).
//!
//! Memory begins as pages of this process alone. Others see it only in [`Shared`] pages, and nobody can take a mapping back from a process that does not
//! let go: so an owner that revokes moves *itself* to other pages, and what the old ones say concerns nobody any more.

mod barrier;
mod bell;
mod bulk;
mod mapping;
mod memory;
mod remote;
mod shared;
mod words;

pub use bell::Bell;
pub use memory::{Memory, MemoryError, View, Width};
pub use remote::{Access, Allow, Offer, Reached, RemoteError, RemoteMemory};
pub use shared::{Attached, Handles, Mode, Shared};
