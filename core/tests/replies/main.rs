//! Calls that are answered many times: every state of small worlds, and long random ways through larger ones.
//!
//! What runs is the shipped state machine. A world is a few nodes, the messages on their way (in no order), readers, and a bound on each kind of
//! fault. Each call has a tree: what its function replies, what it delegates, who keeps the right to reply for longer than the
//! function runs. The promises stand in `promises.rs`: exactly one end; never before the last reply that it counts; never none; each
//! reply once and in order; what is missing is named; of what nobody wants nothing goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[cfg(feature = "seeded-bugs")]
mod bugs;
#[path = "../common/drawn.rs"]
mod drawn;
#[path = "../common/fingerprint.rs"]
mod fingerprint;
mod flow;
mod promises;
mod reader;
mod seeds;
#[path = "../common/sharing.rs"]
mod sharing;
#[cfg(feature = "seeded-bugs")]
#[path = "../common/shown_by.rs"]
mod shown_by;
mod tree;
mod walk;
mod world;
