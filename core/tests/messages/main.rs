//! The machine of messages by itself: what partners that nobody trusts can do with it, and a world drawn from seeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alone;
#[path = "../common/drawn.rs"]
mod drawn;
mod world;
