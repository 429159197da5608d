//! The test world: the shipped state machines of N nodes in virtual time, single-threaded, without sleeping, with every fault that
//! a network and a crash can cause. A seed is a run; a run that breaks an invariant prints its seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::result_large_err)]

#[cfg(feature = "seeded-bugs")]
mod bugs;
mod draw;
#[path = "../common/drawn.rs"]
mod drawn;
mod durable;
mod endings;
mod expected;
mod guest;
mod host;
mod invariants;
mod network;
mod plan;
mod record;
mod seeds;
mod services;
mod shell;
#[cfg(feature = "seeded-bugs")]
#[path = "../common/shown_by.rs"]
mod shown_by;
mod sim;
mod solo;
mod state;
mod stories;
mod told;
