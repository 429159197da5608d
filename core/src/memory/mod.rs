//! What a node remembers of chains, so that nothing takes effect twice: steps done, tombstones of stopped chains, possible duplicates.

mod dedup;
mod fences;
mod listeners;
mod over;
mod records;
mod relays;
mod retold;
mod rows;
mod way;

pub(crate) use dedup::{DedupTable, DoneStep, Fate, REPLY_TO_MAX, Senders, Sent, StepRecord, fingerprint};
pub(crate) use fences::{Fences, possibly_done};
pub(crate) use listeners::Listeners;
pub(crate) use over::Over;
pub(crate) use relays::Relays;
pub(crate) use retold::{Retold, Telling};
pub use way::Way;
