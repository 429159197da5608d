//! The machine of segments by itself, in a small world with faults drawn from seeds, and in every state of worlds that
//! are smaller still.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod alone;
#[path = "../common/drawn.rs"]
mod drawn;
#[path = "../common/fingerprint.rs"]
mod fingerprint;
mod names;
mod setup;
mod small;
mod walk;
mod world;
