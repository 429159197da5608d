//! What a node remembers of chains, so that nothing takes effect twice: steps done, chains stopped, chains that may be under way twice.

mod fences;
mod listeners;
mod over;
mod steps;
mod way;

pub(crate) use fences::{Fences, possibly_done};
pub(crate) use listeners::{Listeners, Relays};
pub(crate) use over::Over;
pub(crate) use steps::{ASKERS_MAX, Done, Fate, Payload, Record, Sent, Steps, fingerprint};
pub use way::Way;
