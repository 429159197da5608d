//! JSON to payload values, in the order in which it was written.

use std::fmt;

use catena::{Value, to_value};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

use crate::{BYTES, base64};

/// Why a text is no payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotJson {
    /// It is not JSON, or not one value.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// What was found or expected.
        message: String,
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
    },
    /// It is JSON that no payload can hold.
    #[error("{0}")]
    Value(String),
}

/// The payload that a text in JSON stands for.
///
/// # Errors
/// [`NotJson`], with the place.
pub fn parse(text: &str) -> Result<Value, NotJson> {
    let json: Json = serde_json::from_str(text).map_err(|why| syntax(text, &why))?;
    to_value(&json).map_err(|why| NotJson::Value(why.message))
}

fn syntax(text: &str, why: &serde_json::Error) -> NotJson {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // The parser counts columns in bytes, and reports 0 at an end of line.
    let line = text.split('\n').nth(why.line().saturating_sub(1)).unwrap_or_default();
    let bytes = line.floor_char_boundary(why.column().saturating_sub(1).min(line.len()));
    let column = line.get(..bytes).unwrap_or_default().chars().count() + 1;
    let message = why.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
    NotJson::Syntax { message, line: number(why.line()), column: number(column) }
}

/// A JSON value whose objects keep their order. Its depth is bounded by the parser's own limit, 128.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the words of JSON, and bytes")]
pub enum Json {
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
    use crate::Shown;

    #[test]
    fn json_comes_back_as_it_went() {
        let text = r#"{"z":[1,-2,1.5,"é",null,true],"a":{"$bytes":"AP8="},"b":{}}"#;
        assert_eq!(serde_json::to_string(&Shown(&parse(text).unwrap())).unwrap(), text);
        let bytes = parse(r#"{"$bytes":"AP8="}"#).unwrap();
        assert_eq!(bytes.as_bytes().as_ref(), [0x42, 0x00, 0xff]);
    }

    #[test]
    fn a_mistake_has_its_place_in_characters() {
        let NotJson::Syntax { line, column, .. } = parse("{\n  \"é\": ?\n}").unwrap_err() else { unreachable!() };
        assert_eq!((line, column), (2, 8));
    }

    #[test]
    fn depth_and_bytes_are_checked() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(&deep(60)).is_ok());
        assert!(matches!(parse(&deep(100)), Err(NotJson::Value(_))));
        assert!(matches!(parse(&deep(100_000)), Err(NotJson::Syntax { .. })));
        assert!(parse(r#"{"$bytes":"?"}"#).is_err());
    }
}
