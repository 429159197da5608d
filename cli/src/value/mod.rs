//! Payload values on the command line: as arguments, as output, and in files of ours.

mod exact;

use catena::Value;
use catena_json::NotJson;
use catena_script::Spot;

use crate::{
    failure::Failure,
    input::{self, ARGUMENT, JSON_BYTES_MAX},
    output::escaped,
};

pub(crate) use catena_json::{OneKey, Shown, base64};
pub(crate) use exact::{Exact, ExactException};

/// A payload as JSON on one line, with nothing in it that would command a terminal.
pub(crate) fn compact(value: &Value) -> String {
    serde_json::to_string(&Shown(value)).map_or_else(|why| format!("(not to be shown as JSON: {why})"), escaped)
}

/// What `--arg` says: JSON, `@FILE`, or `-` for standard input.
pub(crate) fn argument(given: &str) -> Result<Value, Failure> {
    let (named, bytes) = input::argument(given, JSON_BYTES_MAX)?;
    parse(named, &input::text(named, bytes, |message, help| Failure::input("BadJson", message, help))?)
}

/// JSON from the command line itself.
pub(crate) fn inline(given: &str) -> Result<Value, Failure> {
    parse(ARGUMENT, given)
}

fn parse(named: &str, text: &str) -> Result<Value, Failure> {
    catena_json::parse(text).map_err(|why| match why {
        NotJson::Value(message) => Failure::input("BadJson", message, "nest it less deeply"),
        NotJson::Syntax { message, line, column } => {
            let help = if named == ARGUMENT {
                "write JSON, such as '{\"name\": 1}' or '\"text\"' (quoted for the shell), @FILE for a file, - for standard input"
            } else {
                "correct it there: it must be one JSON value"
            };
            let spot = Spot::at_line(named, text, line, column);
            Failure::input("BadJson", format!("not JSON: {message}"), help).at(spot)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mistake_has_its_place() {
        let failure = parse("in.json", "{\n  \"é\": ?\n}").unwrap_err();
        let text = failure.text().unwrap();
        assert!(text.starts_with("in.json:2:8: error: not JSON"), "{text}");
        assert!(text.contains("2 |   \"é\": ?\n"), "{text}");
    }
}
