//! The interface behind which other hosts' memory is reached without messages: RDMA.
//!
//! An owner *offers* a memory to one partner, and sends it a token: the bytes that it needs to reach that memory. The partner *reaches* the memory by the
//! token. An implementation checks the range of every access and what the owner allows. Dropping an offer ends it before `drop` returns: from then on no byte
//! is read or written by it.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::{Memory, Width};

/// A way to reach the memory of other hosts.
pub trait RemoteMemory: fmt::Debug + Send + Sync {
    /// What both sides must have in common, such as `tcp;ofi_rxm`; shown to people, and compared with the partner's.
    fn name(&self) -> &str;

    /// Lets one partner reach `memory`.
    ///
    /// # Errors
    /// It cannot be offered now.
    fn offer(&self, memory: Arc<Memory>, allow: Allow) -> Result<Offer, RemoteError>;

    /// Reaches what a partner offered. `bytes` is its size, and `token` comes from the partner and is not trusted.
    ///
    /// # Errors
    /// It is not a token of this implementation, or resources are exhausted.
    fn reach(&self, token: &[u8], bytes: u64) -> Result<Arc<dyn Reached>, RemoteError>;
}

/// What a partner may do with offered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allow {
    /// Read it.
    Read,
    /// Read it, write it, and swap words in it.
    All,
}

/// Memory that a partner may reach until this is dropped.
pub struct Offer {
    /// The token to send to the partner.
    pub token: Vec<u8>,
    /// Ends the offer when it is dropped.
    pub hold: Box<dyn Send + Sync>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("token_bytes", &self.token.len()).finish()
    }
}

/// An access under way. If it is dropped, the access may or may not go on, but it touches no memory of this process that is reused.
pub type Access<T> = Pin<Box<dyn Future<Output = Result<T, RemoteError>> + Send>>;

/// A partner's memory. Concurrent accesses are not ordered: to order two of them, await the first.
pub trait Reached: fmt::Debug + Send + Sync {
    /// Reads `count` bytes from `offset` on.
    fn read(&self, offset: u64, count: usize) -> Access<Vec<u8>>;

    /// Writes `bytes` at `offset`; completes when they are in the owner's memory.
    fn write(&self, offset: u64, bytes: &[u8]) -> Access<()>;

    /// Compares and swaps a word, atomically with the owner's own swaps; returns the word before. `None`: not supported.
    fn compare_and_swap(&self, offset: u64, width: Width, old: u64, new: u64) -> Option<Access<u64>>;

    /// Whether it may still be used: the first failed access ends it.
    fn is_live(&self) -> bool;
}

/// Why memory was not reached: by which provider, with which peer, what happened, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteError {
    /// The provider.
    pub provider: Box<str>,
    /// The peer.
    pub peer: Box<str>,
    /// The operation that failed.
    pub what: Box<str>,
    /// What happened.
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
