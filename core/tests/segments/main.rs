//! The machine of segments by itself, and in a small world with faults drawn from seeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alone;
#[path = "../common/drawn.rs"]
mod drawn;
mod names;
mod world;
