//! What a node allows with segments: every bound, by name and unit.

/// The node owner's bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentPolicy {
    /// Segments exported at one time.
    pub segments_max: usize,
    /// Bytes of one segment.
    pub segment_bytes_max: u64,
    /// Bytes of all segments together.
    pub exported_bytes_max: u64,
    /// Bytes of segments whose pages are kept in memory.
    pub pinned_bytes_max: u64,
    /// Importers of one segment that have rights of their own.
    pub importers_per_segment_max: usize,
    /// Grants at one time.
    pub grants_max: usize,
    /// Of those, to the partners at one address.
    pub grants_per_peer_max: usize,
    /// Bytes that one request may read or write.
    pub request_bytes_max: u32,
    /// Requests of one link that wait for an earlier write.
    pub held_per_link_max: usize,
    /// Bytes of the writes among them.
    pub held_bytes_per_link_max: u64,
    /// Such requests of all links from one address.
    pub held_per_peer_max: usize,
    /// Bytes of the writes among them.
    pub held_bytes_per_peer_max: u64,
    /// The same, for all links together.
    pub held_bytes_max: u64,
    /// How long they wait at most while none of their link's writes gets its turn, microseconds.
    pub held_time_max_us: u64,
    /// Segments of others imported at one time.
    pub imports_max: usize,
    /// Requests of this node that wait for an answer.
    pub requests_max: usize,
    /// How long a request may wait, microseconds.
    pub request_timeout_us: u64,
    /// Bytes written to one owner and not yet flushed: beyond that a writer waits.
    pub unflushed_bytes_max: u64,
    /// An access of fewer bytes goes by the link, even if remote memory could carry it.
    pub remote_bytes_min: u64,
    /// A mistake on purpose.
    #[cfg(feature = "seeded-bugs")]
    pub bug: Option<crate::bug::SegmentBug>,
}

impl Default for SegmentPolicy {
    fn default() -> Self {
        Self {
            segments_max: 131_072,
            segment_bytes_max: 4 << 30,
            exported_bytes_max: 8 << 30,
            pinned_bytes_max: 64 << 20,
            importers_per_segment_max: 256,
            grants_max: 65_536,
            grants_per_peer_max: 16_384,
            request_bytes_max: 1 << 20,
            held_per_link_max: 1_024,
            held_bytes_per_link_max: 16 << 20,
            held_per_peer_max: 4_096,
            held_bytes_per_peer_max: 32 << 20,
            held_bytes_max: 128 << 20,
            held_time_max_us: 60_000_000,
            imports_max: 65_536,
            requests_max: 65_536,
            request_timeout_us: 5_000_000,
            unflushed_bytes_max: 8 << 20,
            remote_bytes_min: 4 << 10,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }
}
