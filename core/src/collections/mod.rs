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
pub(crate) use expiring::{EXPIRED_AT_ONCE_MAX, Expiring};
pub(crate) use in_order::InOrder;
pub(crate) use party::{Parties, Party};
pub(crate) use recent::Recent;
pub(crate) use shares::{Shares, leaves_room};
pub(crate) use tally::{Taken, Tally};
pub(crate) use timers::{DUE_AT_ONCE_MAX, Timers};
pub(crate) use unreached::Unreached;
