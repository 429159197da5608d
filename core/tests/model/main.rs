//! The protocol's state space, walked: small worlds, every order of events, every place for a fault.
//!
//! What runs is the shipped state machine; what is explored is everything that a network and its nodes may do to it. A world
//! is a few nodes, the messages on their way (in no order), and a bound on each kind of fault. Guests and services act at once:
//! what they do between two messages commutes with all else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[cfg(feature = "seeded-bugs")]
mod bugs;
mod guest;
mod setups;
mod shell;
mod walk;
mod world;

/// All states of all these worlds.
#[test]
fn every_state_of_small_worlds_keeps_the_promises() {
    for setup in setups::all() {
        walk::explore(setup);
    }
}
