//! What a service function reads of blobs, for the profile of its step: how many bytes, and by which way they came.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catena_wire::BlobBytes;

use crate::Way;

/// How bytes of a blob came to their reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// This node owns them.
    Own,
    /// A READ brought them, by this way.
    Read(Way),
    /// Their owner pushed them beside the call.
    Push,
}

/// Counts bytes as they arrive, also those that the function has not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    own: AtomicU64,
    shared_memory: AtomicU64,
    rdma: AtomicU64,
    link: AtomicU64,
    pushed: AtomicU64,
}

impl Tally {
    pub(super) fn add(&self, by: By, bytes: u64) {
        let count = match by {
            By::Own => &self.own,
            By::Read(Way::SharedMemory) => &self.shared_memory,
            By::Read(Way::Rdma) => &self.rdma,
            By::Read(Way::Link) => &self.link,
            By::Push => &self.pushed,
        };
        count.fetch_add(bytes, Relaxed);
    }

    /// The counts so far; `None`: nothing has arrived.
    pub(crate) fn bytes(&self) -> Option<BlobBytes> {
        let bytes = BlobBytes {
            own: self.own.load(Relaxed),
            shared_memory: self.shared_memory.load(Relaxed),
            rdma: self.rdma.load(Relaxed),
            link: self.link.load(Relaxed),
            pushed: self.pushed.load(Relaxed),
        };
        (bytes != BlobBytes::default()).then_some(bytes)
    }
}
