//! Segments: memory that its owner exports by name, and that others read, write and swap words in without the owner's code running
//! (Separating Data and Control Transfer, sections 3 and 4).
//!
//! [`Segments`] decides and copies nothing: whoever drives it has the bytes. It stands beside [`crate::Node`], under a lock of its own, so that no READ
//! waits behind chains. It is two halves that share nothing:
//!
//! | part | what it knows |
//! | --- | --- |
//! | `owner` | descriptors: name, number, generation, rights, write inhibit, when to notify; what becomes of a request |
//! | `grants` | rights to one partner: so many uses, a range, until a time |
//! | `turns` | the writes of each link in the order in which they were sent, though long ones overtake each other on the way |
//! | `importer` | what was imported, requests under way with their deadlines, writes not yet flushed |
//! | `registry` | the table in which names are found by reading: its records, and where to probe |
//! | `clerk` | the owner's table: what is where in it, and when it has to grow |
//!
//! `M` is whatever stands for a segment's bytes, `W` whoever waits for an answer.

mod clerk;
mod grants;
mod importer;
mod owner;
mod policy;
pub mod registry;
mod turns;

pub use clerk::{Clerk, Placed};
pub use grants::Grant;
pub use importer::{Answer, Asked, Import, ImportId, Importer, WriteRefused};
pub use owner::{Export, ExportError, Notify, Owner, SegmentId, Todo};
pub use policy::SegmentPolicy;

#[cfg(feature = "seeded-bugs")]
pub use policy::SegmentBug;

/// Both halves of what a node does with segments.
#[derive(Debug)]
pub struct Segments<M, W> {
    /// Segments of this node.
    pub owner: Owner<M>,
    /// Segments of other nodes.
    pub importer: Importer<W>,
}

impl<M: Clone, W> Segments<M, W> {
    /// Neither has anything yet. Generations begin after `last_generation`: no run of this node before may have come so far.
    #[must_use]
    pub fn new(policy: &SegmentPolicy, last_generation: u64) -> Self {
        Self { owner: Owner::new(policy.clone(), last_generation), importer: Importer::new(policy.clone()) }
    }
}
