//! The memory of segments: what an owner exports, and what others on the same host may share.
//!
//! This crate knows memory and nothing else: no sockets, names or rights. Bytes are accessed through [`Memory`] only, which checks bounds and accesses shared
//! bytes by atomic words, so the worst that another process can do is to change the bytes. Nothing is parsed in place, and since the size of a mapping is
//! sealed, no access can fault.
//!
//! - An aligned word of 8 bytes is never torn, in blocks of any size: a block is copied as a series of such words, each whole, in no guaranteed order.
//! - A write never touches a byte beside its range, not even when it begins or ends within a word.
//! - Whoever has read a word sees, in a later access, everything that was written before that word (release and acquire).
//!
//! Memory begins as private pages. Others see it only in [`Shared`] pages, and a mapping cannot be taken back from a process that does not release it: so an
//! owner that revokes moves *itself* to other pages, and the contents of the old ones do not matter any more.

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
