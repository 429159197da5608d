//! Corsair (Quatrain sections 4.1 and 5.2): asked at one site for the phone numbers of a community, which has members at others too.
//!
//! Each site is a node with a database of its own, and no site holds the numbers of another's users. [`service`] answers twice over: with
//! each number as it is found, wherever that is; and, as the baseline, by standard parallel calls, with all of them together.
#![forbid(unsafe_code)]

pub mod aat;
pub mod data;
pub mod database;
pub mod federation;
pub mod figures;
pub mod service;
pub mod sites;
