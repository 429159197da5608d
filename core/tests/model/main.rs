//! The protocol's state space, walked: small worlds, every order of events, every place for a fault.
//!
//! What runs is the shipped state machine; what is explored is everything that a network and its nodes may do to it. A world
//! is a few nodes, the messages on their way (in no order), and a bound on each kind of fault. Guests and services act at once:
//! what they do between two messages commutes with all else.
//!
//! The promises are in `walk.rs`: nothing is asked for that may not be; no effect twice under one key; every chain ends, at
//! most once, and leaves nothing behind; one that failed at a step failed before that step's effect, and an uncertainty is told with
//! whatever is thrown after it; no answer and no line is lost unreported or delivered twice; a merge brings every branch's result;
//! no budget is exceeded; what is cancelled ends so; without a fault all is answered, and where the network alone errs, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[cfg(feature = "seeded-bugs")]
mod bugs;
mod durable;
#[path = "../common/fingerprint.rs"]
mod fingerprint;
mod guest;
mod migration;
mod setup;
mod setups;
#[path = "../common/sharing.rs"]
mod sharing;
mod shell;
#[cfg(feature = "seeded-bugs")]
#[path = "../common/shown_by.rs"]
mod shown_by;
mod walk;
mod world;

/// All states of all these worlds.
#[test]
fn every_state_of_small_worlds_keeps_the_promises() {
    let mut broken = Vec::new();
    let mut states = 0;
    for setup in setups::all() {
        let name = setup.name;
        let (different, kept) = walk::explore(setup);
        states += different;
        broken.extend((!kept).then_some(name));
    }
    println!("{states} different states in all");
    assert!(broken.is_empty(), "not walked to their end, or a promise is broken: {broken:?}");
}
