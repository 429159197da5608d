//! Clerks: a service's other half, on the machines of its clients (Separating Data and Control Transfer, sections 3.2, 3.3 and 5).
//!
//! A server lays its data out in tables that it exports; its clerks READ them, and transfer control only where a table lacks what they need. The service
//! chooses its own coherence from these pieces, each with its guarantee in one sentence:
//!
//! | piece | server's side | clerk's side | guarantee |
//! | --- | --- | --- | --- |
//! | table | [`Table`] | [`FarTable`] | a reader finds what was entered whole, or nothing, and after a removal returned finds nothing that was removed |
//! | changes | [`Changes`] | | an entry that was read before a change of its groups ended is not entered after that change began |
//! | control on a miss | [`answer`] | [`Asking`] | an answer is that of its own request, whole, and a request is done at most once |
//! | token | [`Tokens`] | [`FarTokens`] | among clerks that keep to the rules, nobody else holds it before the server's beat has passed its expiry, unless the server took it back (its holder is not told, and learns of that when it gives the token back); a clerk that lies takes a token away early, and holds none for longer than the server lets it |
//! | token asked back | [`Tokens::ask_back`] | [`Wanted`] | a holder that listens is told before a token is taken from it, and one that does not, or is gone, delays the server for a given time at most |
//! | eager push | [`Pushing`] | [`Pushed`] | what is found was pushed, whole, and is found once the server's flush returned |
//! | period of validity | | [`Kept`] | what it returns was put there at most that long ago |
//! | failure of the server | [`Table::beat`] | [`Lease`] | while it is good, the server incremented its word at most a given time ago |
#![forbid(unsafe_code)]

mod changes;
mod frame;
mod index;
mod kept;
mod lane;
mod layout;
mod lease;
mod push;
mod table;
mod token;

pub use changes::{Changes, Changing, Look};
pub use frame::{FRAME_HEAD_BYTES, Lanes, frame};
pub use index::Groups;
pub use kept::Kept;
pub use lane::{Asking, answer, answers_bytes, beat_at};
pub use layout::{BEAT_AT, HEAD_BYTES, Key, LayoutError, PAYLOAD_BYTES_MAX, SECTORS_MAX, SLOTS_MAX, Shape};
pub use lease::Lease;
pub use push::{Pushed, Pushing};
pub use table::{FarTable, Table};
pub use token::{FarTokens, Held, Tokens, Wanted};
