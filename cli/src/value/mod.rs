//! Payload values and JSON: what a person writes becomes CBOR, and what comes back becomes JSON.
//!
//! Both ways bytes are `{"$bytes": "BASE64"}`, since JSON has none.

pub(crate) mod base64;
mod exact;
mod read;
mod show;
mod when;

pub(crate) use exact::{Exact, ExactException};
pub(crate) use read::{argument, inline};
pub(crate) use show::{OneKey, Shown};

/// The key under which bytes stand in JSON.
const BYTES: &str = "$bytes";
