//! Calls that are answered many times, from anywhere, with an exact end (Quatrain; design, section 4).
//!
//! Whoever serves such a call has the **right to reply**, and may delegate: so the rights of one call are a tree, and each of them ends when
//! its holder lets it go. A right's end says how many replies were sent under it, and which rights it delegated. The caller's set is
//! complete when for every right that it knows of (the root, those that ends have named, those that it has heard from) the end has come
//! and as many replies as that counts: never before, since a right is named by an end that is awaited itself; never later, since
//! everything that counts is sent until it has arrived, and a holder that shows no sign of life is given up, by name.
//!
//! [`right`] is the side of the holder, [`set`] that of the caller, and [`ending`] says how its set has ended; a [`crate::collections::Tally`] orders and counts, for chains too.

mod ending;
mod flow;
mod held;
mod known;
mod missing;
mod right;
mod set;
#[cfg(test)]
mod testing;

pub use held::{Gather, NotSent, Sent};
pub(crate) use known::Reader;
pub(crate) use right::Rights;
pub(crate) use set::Sets;
