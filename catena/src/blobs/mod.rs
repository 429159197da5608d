//! Blobs: values by reference. The bytes stay with their owner; what travels says where they are, and whoever needs them reads them there.
//!
//! A blob is a segment with a grant to whoever knows its number, and reading one is READs of it: nothing here is a mechanism of its own.
//!
//! | file | what it does |
//! | --- | --- |
//! | `reference` | what travels: the marked value, by serde |
//! | `held` | the blobs that this node owns: their segments, their time, their memory |
//! | `blob` | the handle: size, type, slices, and reading |
//! | `pieces` | bytes in order, many pieces under way at once |
//! | `early` | what is fetched before anybody asks: the bytes of a parameter, from the moment at which the call is here |
//! | `beside` | what goes to a callee beside the call, before it has asked |
//! | `reading` | `catena.blob`: how functions read |
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
