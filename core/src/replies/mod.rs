//! Calls that are answered many times, from anywhere, with an exact end (Quatrain; design, section 4).
//!
//! The node that serves such a call has the **right to reply**, and may delegate parts of it. So the rights of one call form a tree, and each ends when its
//! holder lets it go. A right's end says how many replies were sent under it, and which rights it delegated. The caller's set is complete when, for every right
//! that it knows of (the root, those named by ends, those it has heard from), the end has come and as many replies as the end counts. This is never too early,
//! since a right is named by an end that is itself awaited; and never too late, since everything that counts is sent until it has arrived, and a holder that
//! shows no sign of life is given up, by name.
//!
//! [`right`] is the holder's side, [`set`] the caller's; [`ending`] says how a set ended. A [`crate::collections::Tally`] orders and counts, for chains too.

mod ending;
mod exceptions;
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
pub(crate) use right::{Rights, end_too_large};
pub(crate) use set::Sets;
