//! What the service function of a step read of blobs, and by which way that came.

use catena::BlobBytes;
use serde::Serialize;

use super::bytes;

/// Bytes, by the way by which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Blobs {
    own: u64,
    shared_memory: u64,
    rdma: u64,
    link: u64,
    pushed: u64,
}

impl Blobs {
    pub(super) const fn of(read: &BlobBytes) -> Self {
        let BlobBytes { own, shared_memory, rdma, link, pushed } = *read;
        Self { own, shared_memory, rdma, link, pushed }
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            own: self.own.saturating_add(other.own),
            shared_memory: self.shared_memory.saturating_add(other.shared_memory),
            rdma: self.rdma.saturating_add(other.rdma),
            link: self.link.saturating_add(other.link),
            pushed: self.pushed.saturating_add(other.pushed),
        }
    }

    /// Such as `45.8 MB by link + 4.2 MB pushed`; empty where nothing was read.
    pub(super) fn text(self) -> String {
        let ways = [
            (self.own, "from here"),
            (self.shared_memory, "by shared memory"),
            (self.rdma, "by RDMA"),
            (self.link, "by link"),
            (self.pushed, "pushed"),
        ];
        let came = ways.iter().filter(|(count, _)| *count > 0);
        came.map(|(count, way)| format!("{} {way}", bytes(*count))).collect::<Vec<_>>().join(" + ")
    }
}
