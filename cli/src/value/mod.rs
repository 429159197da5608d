//! Payload values on the command line: as arguments, as output, and in files of ours.

mod exact;
mod read;

use catena::Value;

use crate::output::escaped;

pub(crate) use catena_json::{OneKey, Shown, base64};
pub(crate) use exact::{Exact, ExactException};
pub(crate) use read::{argument, inline};

/// A payload as JSON on one line, with nothing in it that would command a terminal.
pub(crate) fn compact(value: &Value) -> String {
    serde_json::to_string(&Shown(value)).map_or_else(|why| format!("(not to be shown as JSON: {why})"), escaped)
}
