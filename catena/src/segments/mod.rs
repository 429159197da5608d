//! Segments: memory of a node that others read, write and swap words in, without a service's code running
//! (Separating Data and Control Transfer, sections 3 and 4).
//!
//! `catena_core::segments` makes the decisions, and `catena_segment` holds the bytes; this module connects both:
//!
//! | file | what it does |
//! | --- | --- |
//! | `hub` | the machine under its own lock, and what the links bring for it |
//! | `serve` | requests of others: answered in the reader of the link that brought them |
//! | `exported`, `notices` | the bytes of a segment of this node; who is notified |
//! | `segment` | the owner's handle |
//! | `imported`, `way` | the importer's handle; which of the three ways an access takes is decided in `way` alone |
//! | `far`, `near`, `remote` | those ways: by the link, in shared memory, by remote memory (RDMA) |
//! | `mapped` | where the bytes lie, for other languages |
//! | `names` | imports: the local table, the owner's table by READs, or asking |
//! | `door` | shared memory on one host: tickets and descriptors |
//! | `watch` | telling a dead owner from a cut network |
//! | `errors` | what went wrong, for people |

mod door;
mod errors;
mod exported;
mod far;
mod hub;
mod imported;
mod mapped;
mod names;
mod near;
mod notices;
mod remote;
mod segment;
mod serve;
mod watch;
mod way;

pub(crate) use errors::of_refusal as refused;
pub(crate) use far::{PIECE_BYTES, pieces_of};
pub(crate) use hub::{Hub, Sharing};
pub use imported::{Imported, Wish};
pub use mapped::Mapped;
pub use names::Lookup;
pub(crate) use near::Near;
pub use notices::{Access, Notice, Notifications};
pub use segment::{GrantTerms, Granted, Segment};
pub use way::Way;

/// The rights, in words.
pub(crate) fn show_rights(rights: catena_wire::Rights) -> String {
    use catena_wire::Rights as R;
    let words = [(R::READ, "read"), (R::WRITE, "write"), (R::CAS, "cas")];
    let words: Vec<_> = words.into_iter().filter(|(right, _)| rights.include(*right)).map(|(_, word)| word).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
