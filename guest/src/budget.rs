//! The memory budget that all guests of a node share.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
};

/// The first part of each memory, of which only pages that the guest has written are taken from the budget: an engine begins with as much, most of which it
/// never touches.
pub(crate) const INITIAL_BYTES: usize = 2 << 20;
/// What an instance may have written there without taking it from the budget. A JavaScript function of a few lines has written 140 KiB.
pub(crate) const INSTANCE_FREE_BYTES: u64 = 512 << 10;

/// Asked before the memory of a guest grows. A node with one budget for everything provides it here.
pub trait MemoryBudget: Send + Sync + Debug {
    /// Takes this many bytes, or none. Returns whether it took them.
    fn take(&self, bytes: u64) -> bool;
    /// Gives back what was taken.
    fn give_back(&self, bytes: u64);
    /// The name and size of the limit, for error messages.
    fn limit(&self) -> (&str, u64);
}

/// A budget for guests alone: `guests_bytes_max`.
#[derive(Debug)]
pub struct GuestsBudget {
    bytes_max: u64,
    taken_bytes: AtomicU64,
}

impl GuestsBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub const fn new(bytes_max: u64) -> Self {
        Self { bytes_max, taken_bytes: AtomicU64::new(0) }
    }
}

impl MemoryBudget for GuestsBudget {
    fn take(&self, bytes: u64) -> bool {
        let taken = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.bytes_max);
        self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn limit(&self) -> (&str, u64) {
        ("guests_bytes_max", self.bytes_max)
    }
}
