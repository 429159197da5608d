//! JSON to payload values, in the order in which it was written.

use std::fmt;

use catena::{Value, to_value};
use catena_script::Spot;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

use super::{BYTES, base64};

use crate::{
    failure::Failure,
    input::{self, JSON_BYTES_MAX},
};

/// What `--arg` says: JSON, `@FILE`, or `-` for standard input.
pub(crate) fn argument(given: &str) -> Result<Value, Failure> {
    if given == "-" {
        return from_bytes("standard input", &input::stdin(JSON_BYTES_MAX)?);
    }
    match given.strip_prefix('@') {
        Some(file) => from_bytes(file, &input::file(file.as_ref(), JSON_BYTES_MAX)?),
        None => inline(given),
    }
}

/// JSON from the command line itself.
pub(crate) fn inline(given: &str) -> Result<Value, Failure> {
    parse("argument", given)
}

fn from_bytes(named: &str, bytes: &[u8]) -> Result<Value, Failure> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(named, text),
        Err(why) => {
            let text = String::from_utf8_lossy(bytes);
            let spot = Spot::at_byte(named, &text, why.valid_up_to());
            Err(Failure::input("BadJson", "this byte is not UTF-8 text", "save it as UTF-8").at(spot))
        }
    }
}

fn parse(named: &str, text: &str) -> Result<Value, Failure> {
    let json: Json = serde_json::from_str(text).map_err(|why| bad_json(named, text, &why))?;
    to_value(&json).map_err(|why| Failure::input("BadJson", why.message, "nest it less deeply"))
}

fn bad_json(named: &str, text: &str, why: &serde_json::Error) -> Failure {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // The parser counts columns in bytes, and 0 at an end of line.
    let line = text.split('\n').nth(why.line().saturating_sub(1)).unwrap_or_default();
    let bytes = line.floor_char_boundary(why.column().saturating_sub(1).min(line.len()));
    let column = line.get(..bytes).unwrap_or_default().chars().count() + 1;
    let message = why.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let help = if named == "argument" {
        "write JSON, such as '{\"name\": 1}' or '\"text\"' (quoted for the shell), @FILE for a file, - for standard input"
    } else {
        "correct it there: it must be one JSON value"
    };
    Failure::input("BadJson", format!("not JSON: {message}"), help).at(Spot::at_line(
        named,
        text,
        number(why.line()),
        number(column),
    ))
}

/// A JSON value whose objects keep their order. Its depth is bounded by the parser's own limit, 128.
pub(super) enum Json {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Signed(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry::<String, Json>()? {
            object.push(entry);
        }
        match object.as_slice() {
            [(key, Json::Text(text))] if key == BYTES => base64::decode(text)
                .map(Json::Bytes)
                .ok_or_else(|| de::Error::custom(format_args!("{BYTES} is followed by what is not base64"))),
            _ => Ok(Json::Object(object)),
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Signed(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::Array(items) => {
                let mut array = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| array.serialize_element(item))?;
                array.end()
            }
            Self::Object(entries) => {
                let mut object = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| object.serialize_entry(key, value))?;
                object.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::value::Shown;

    #[test]
    fn json_comes_back_as_it_went() {
        let text = r#"{"z":[1,-2,1.5,"é",null,true],"a":{"$bytes":"AP8="},"b":{}}"#;
        assert_eq!(Shown(&inline(text).unwrap()).compact(), text);
        let bytes = inline(r#"{"$bytes":"AP8="}"#).unwrap();
        assert_eq!(bytes.as_bytes().as_ref(), [0x42, 0x00, 0xff]);
    }

    #[test]
    fn a_mistake_has_its_place() {
        let failure = parse("in.json", "{\n  \"é\": ?\n}").unwrap_err();
        let text = failure.text().unwrap();
        assert!(text.starts_with("in.json:2:8: error: not JSON"), "{text}");
        assert!(text.contains("2 |   \"é\": ?\n"), "{text}");
    }

    #[test]
    fn depth_and_bytes_are_checked() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(inline(&deep(60)).is_ok());
        assert!(inline(&deep(100)).is_err());
        assert!(inline(&deep(100_000)).is_err());
        assert!(inline(r#"{"$bytes":"?"}"#).is_err());
    }
}
