//! Blobs: values by reference. The bytes stay with their owner; a chain carries where they are, and whoever needs them reads them from there.
//!
//! A blob is a segment with a grant to everyone who knows its number, and reading one is READs of that segment: there is no separate mechanism.
//!
//! | file | what it does |
//! | --- | --- |
//! | `reference` | the encoding of a blob: the tagged value, by serde |
//! | `held` | the blobs that this node owns: their segments, lifetimes and memory |
//! | `blob` | the handle: size, type, slices, and reading |
//! | `pieces` | bytes in order, many pieces under way at once |
//! | `early` | bytes fetched before anybody asks: those of a parameter, as soon as the call arrives |
//! | `beside` | bytes pushed to a callee beside the call, before it asks |
//! | `reading` | `catena.blob`: how functions read blobs |
//! | `tally` | how many bytes a service function read, and by which way they came |

mod beside;
mod blob;
mod early;
mod held;
mod pieces;
mod reading;
mod reference;
mod tally;

pub use blob::Blob;
pub(crate) use early::{Here, decoded_in};
pub(crate) use held::Blobs;
pub(crate) use reading::{SERVICE, service};
pub(crate) use tally::Tally;
