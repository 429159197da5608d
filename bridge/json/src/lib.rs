//! Payload values and JSON: what people and browsers write becomes CBOR, and what comes back becomes JSON.
//!
//! Both ways bytes are `{"$bytes": "BASE64"}`, since JSON has none.
#![forbid(unsafe_code)]

pub mod base64;
mod read;
mod show;
mod when;

pub use read::{Json, NotJson, parse};
pub use show::{Address, Addressed, OneKey, Shown};

/// The key under which bytes stand in JSON.
const BYTES: &str = "$bytes";
