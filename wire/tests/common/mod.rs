//! Messages for the tests: one fixed one of each kind, and any at all.
#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

mod chains;
mod fixed;
mod memory;
mod message;
mod parts;

pub(crate) use fixed::{
    branch_of, deep_hop, entry_of, exception_of, hop_of, key_of, line_of, node_of, samples, trace_of,
};
pub(crate) use message::message;
pub(crate) use parts::{exception, value};
