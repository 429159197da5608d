//! The last line for programs.

use catena::Value;
use serde::Serialize;

use crate::{ending::Ending, failure::Failure, output::Output, value::Shown};

/// How it ended: what every report begins with.
#[derive(Serialize)]
pub(crate) struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<serde_json::Value>,
    ending: Ending,
}

impl<'a> Head<'a> {
    pub(crate) fn of(ended: Result<&'a Value, &Failure>) -> Self {
        Self {
            result: ended.ok().map(Shown),
            error: ended.err().and_then(Failure::json),
            ending: ended.map_or_else(Failure::ending, |_| Ending::Answered),
        }
    }
}

#[derive(Serialize)]
struct Report<'a, More> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    more: More,
}

/// Tells it, with what the command knows besides; nothing is left to say then.
pub(crate) fn tell(ended: Result<Value, Failure>, more: impl Serialize, output: &Output) -> Result<(), Failure> {
    output.json_line(&Report { head: Head::of(ended.as_ref()), more })?;
    ended.map(drop).map_err(|why| Failure::Told(why.exit()))
}
