//! Catena's state machines, sans-I/O: events in, actions out.
//!
//! A [`Node`] is one participant, whichever roles it plays: origin of chains, host of hops, caller and callee of plain calls. It knows no socket, no
//! clock, no thread and no guest: time is an argument, and whatever has to be done comes out of [`Node::poll_action`] for the shell to do.
//! So the shipped code, not a model of it, runs in the test world at thousands of seeds (`core/tests/world`).
//!
//! [`segments::Segments`] is a state machine of its own beside [`Node`]: what nodes do with each other's memory.
//!
//! How to drive a node: call the `on_*` method of whatever happened, then take actions until there are none; call [`Node::on_timeout`] when
//! [`Node::next_timeout`] is reached. Every method may be called at any time, in any order, with anything that a peer sent.
#![no_std]
#![forbid(unsafe_code)]
// Exceptions are passed by value: calls seldom fail, and a box would only make the code harder to read.
#![allow(clippy::result_large_err)]

extern crate alloc;

#[macro_use]
mod seeded;

mod action;
mod activation;
mod allowance;
pub mod beside;
#[cfg(feature = "seeded-bugs")]
mod bug;
mod calls;
mod chain;
mod code;
mod collections;
mod console;
mod delivery;
mod directory;
mod ground;
mod memory;
pub mod messages;
mod node;
mod origin;
mod outbox;
mod plan;
mod policy;
mod replies;
mod request;
pub mod segments;
mod time;

pub(crate) use action::RetryScope;
pub use action::{
    Action, Answer, CallId, GuestAsk, Handed, Instance, LookupId, Missing, Receipt, Replied, SessionId, SubChain,
    Ticket, Turn, Undelivered, Urgency, Wanted,
};
#[cfg(feature = "seeded-bugs")]
pub use bug::Bug;
pub use catena_wire::{GuestCall, GuestRead, GuestSplit, Tail};
pub use chain::HopCopy;
pub use collections::{Party, Places};
pub use directory::Link;
pub use memory::Way;
pub use node::Node;
pub use plan::{Plan, Start};
pub use policy::Policy;
pub use replies::{Gather, NotSent, Sent};
pub use time::Time;
