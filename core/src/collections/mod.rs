//! Small collections that every part uses: deadlines in order, numbered answers, what is remembered for a while, what was used lately, how much
//! each peer has of something, and for how long a peer could not be reached.

mod awake;
mod expiring;
mod in_order;
mod party;
mod recent;
mod shares;
mod tally;
mod timers;
mod unreached;

pub(crate) use awake::AwakeClock;
pub(crate) use expiring::Expiring;
pub(crate) use in_order::InOrder;
pub(crate) use party::Parties;
pub use party::Party;
pub(crate) use recent::Recent;
pub use shares::Places;
pub(crate) use shares::{Shares, leaves_room};
pub(crate) use tally::{Taken, Tally};
pub(crate) use timers::Timers;
pub(crate) use unreached::Unreached;

/// How many deadlines of a kind, or old entries of one collection, are dealt with in one event. After the process has stood still all may be due, and everything
/// else waits meanwhile.
pub(crate) const AT_ONCE_MAX: usize = 2_048;
