//! Segments: memory that its owner exports by name, and that others read, write and swap words in without the owner's code running
//! (Separating Data and Control Transfer, sections 3 and 4).
//!
//! [`Segments`] decides and copies nothing: the bytes are with its driver. It stands beside [`crate::Node`], under a lock of its own, so that no READ waits
//! behind chains. Its two halves share nothing:
//!
//! | part | what it knows |
//! | --- | --- |
//! | `owner` | segments of this node: routes, and says what becomes of a request |
//! | `exports` | descriptors: name, number, generation, rights, write inhibit, when to notify |
//! | `grants` | rights of one partner: to a range, for a number of uses, until a time |
//! | `turns` | the writes of each link in the order in which they were sent, though long ones overtake each other on the way |
//! | `importer` | segments of other nodes: routes events to the three parts below |
//! | `imports` | what was imported, whether it is still valid, and which writes to it were refused |
//! | `requests` | requests under way, each until it is answered or its deadline has passed |
//! | `writes` | writes not yet flushed: their turns, and how many bytes may be under way |
//! | `registry` | the table in which names are found by reading: its records, and where to probe |
//! | `clerk` | the owner's side of that table: which slot holds what, and when it has to grow |
//!
//! `M` stands for a segment's bytes, `W` for whoever waits for an answer.

mod clerk;
mod exports;
mod grants;
mod importer;
mod imports;
mod owner;
mod policy;
pub mod registry;
mod requests;
mod turns;
mod writes;

pub use clerk::{Clerk, Placed};
pub use exports::{Export, ExportError, Exports, Notify, SegmentId};
pub use grants::Grant;
pub use importer::{Answer, Direct, Importer, WriteRefused};
pub use imports::{Import, ImportId, Imports, RefusedWrite};
pub use owner::{Owner, Todo};
pub use policy::SegmentPolicy;
pub use requests::Asked;

#[cfg(feature = "seeded-bugs")]
pub use crate::bug::SegmentBug;

/// Both halves of what a node does with segments.
#[derive(Clone, Debug)]
pub struct Segments<M, W> {
    /// Segments of this node.
    pub owner: Owner<M>,
    /// Segments of other nodes.
    pub importer: Importer<W>,
}

impl<M: Clone, W> Segments<M, W> {
    /// Both halves are empty. Generations begin after `last_generation`, beyond which no earlier run of this node may have come.
    #[must_use]
    pub fn new(policy: &SegmentPolicy, last_generation: u64) -> Self {
        Self { owner: Owner::new(policy.clone(), last_generation), importer: Importer::new(policy) }
    }
}
