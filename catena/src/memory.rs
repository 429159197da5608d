//! The guests' part of the node's memory budget.

use std::sync::Mutex;

use catena_net::{Lease, MemoryBudget};

use crate::shell::lock;

/// The memory of all guests as one lease, which grows and shrinks with it.
#[derive(Debug)]
pub(crate) struct GuestsMemory {
    lease: Mutex<Lease>,
    bytes_max: u64,
}

impl GuestsMemory {
    pub(crate) fn new(memory: &MemoryBudget) -> Self {
        Self { lease: Mutex::new(memory.none()), bytes_max: memory.bytes_max() }
    }
}

impl catena_guest::MemoryBudget for GuestsMemory {
    fn take(&self, bytes: u64) -> bool {
        let mut lease = lock(&self.lease);
        lease.bytes().checked_add(bytes).is_some_and(|sum| lease.resize(sum).is_ok())
    }

    fn give_back(&self, bytes: u64) {
        let mut lease = lock(&self.lease);
        let left = lease.bytes().saturating_sub(bytes);
        // Shrinking a lease cannot fail.
        let _ = lease.resize(left);
    }

    fn limit(&self) -> (&str, u64) {
        ("guests_bytes_max, half of the node's memory", self.bytes_max)
    }
}
