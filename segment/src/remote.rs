//! The seam behind which other hosts' memory is reached by something else than messages: RDMA.
//!
//! An owner *offers* a memory to one partner, and tells him by a message what he needs to reach it (a token of bytes, as it tells what is needed to map
//! shared memory). The partner *reaches* it by that token. What is behind the seam checks the range of every access and what the owner allows, and an
//! offer that is dropped ends before `drop` returns: no byte is read or written by it from then on.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::{Memory, Width};

/// A way to reach the memory of other hosts.
pub trait RemoteMemory: fmt::Debug + Send + Sync {
    /// What both sides have to have in common, for people and for the partner: `tcp;ofi_rxm`.
    fn name(&self) -> &str;

    /// Lets one partner reach `memory`.
    ///
    /// # Errors
    /// It cannot be offered now.
    fn offer(&self, memory: Arc<Memory>, allow: Allow) -> Result<Offer, RemoteError>;

    /// Reaches what a partner offered; `bytes` is its size, `token` what the partner told, which is believed in nothing.
    ///
    /// # Errors
    /// It is not a token of this way, or there is no room.
    fn reach(&self, token: &[u8], bytes: u64) -> Result<Arc<dyn Reached>, RemoteError>;
}

/// What a partner may do with what is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allow {
    /// Read it.
    Read,
    /// Read it, write it, swap words in it.
    All,
}

/// Memory that a partner may reach until this is dropped.
pub struct Offer {
    /// What to tell him.
    pub token: Vec<u8>,
    /// What ends it.
    pub hold: Box<dyn Send + Sync>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("token_bytes", &self.token.len()).finish()
    }
}

/// An access under way. It may be dropped: what it began goes on or not, and touches nothing of this process that is used for something else.
pub type Access<T> = Pin<Box<dyn Future<Output = Result<T, RemoteError>> + Send>>;

/// A partner's memory. Accesses under way at one time are in no order: whoever wants one awaits the first.
pub trait Reached: fmt::Debug + Send + Sync {
    /// Brings `count` bytes from `offset` on.
    fn read(&self, offset: u64, count: usize) -> Access<Vec<u8>>;

    /// Puts `bytes` at `offset`; done when they are in the owner's memory.
    fn write(&self, offset: u64, bytes: &[u8]) -> Access<()>;

    /// Compares and swaps a word, atomic with the owner's own; gives what was there. `None`: not by this way.
    fn compare_and_swap(&self, offset: u64, width: Width, old: u64, new: u64) -> Option<Access<u64>>;

    /// Whether it may still be used: the first access that fails ends it.
    fn is_live(&self) -> bool;
}

/// Why memory was not reached: by which provider, with which peer, what happened, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteError {
    /// By what.
    pub provider: Box<str>,
    /// With whom.
    pub peer: Box<str>,
    /// What was to be done.
    pub what: Box<str>,
    /// What came of it.
    pub why: Box<str>,
    /// What to do next.
    pub next: &'static str,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, peer, what, why, next } = self;
        write!(f, "{what}")?;
        if !peer.is_empty() {
            write!(f, " with {peer}")?;
        }
        write!(f, " by {provider}: {why}; {next}")
    }
}

impl std::error::Error for RemoteError {}
