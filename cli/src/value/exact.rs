//! Payloads in files of ours: as JSON where that says all there is to say, else as their bytes, `{"$cbor": "BASE64"}`.

use catena::{Exception, Value, to_value};
use catena_json::{Json, Shown, base64, parse};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};

/// The key under which CBOR stands.
const CBOR: &str = "$cbor";

/// A payload that comes back from a file byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exact(pub(crate) Value);

/// An exception that comes back from a file with all that it had.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExactException(pub(crate) Exception);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plain = parse(&text(&self.0)).is_ok_and(|back| back == self.0) && !is_marked(&self.0);
        if plain { Shown(&self.0).serialize(serializer) } else { marked(&self.0, serializer) }
    }
}

impl Serialize for ExactException {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = Value::encode(&self.0);
        let back = parse(&text(&value)).ok().and_then(|value| exception(&value).ok());
        if back.as_ref() == Some(&self.0) { Shown(&value).serialize(serializer) } else { marked(&value, serializer) }
    }
}

/// What is read back; what cannot be written is no JSON.
fn text(value: &Value) -> String {
    serde_json::to_string(&Shown(value)).unwrap_or_default()
}

/// An object of the program's own that looks like the mark.
fn is_marked(value: &Value) -> bool {
    let mut d = minicbor::Decoder::new(value.as_bytes());
    matches!(d.map(), Ok(Some(1))) && matches!(d.str(), Ok(CBOR))
}

fn marked<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(CBOR, &base64::encode(value.as_bytes()))?;
    map.end()
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let wrong = || de::Error::custom(format_args!("{CBOR} is followed by what is not CBOR in base64"));
        if let Json::Object(entries) = &json
            && let [(key, Json::Text(text))] = entries.as_slice()
            && key == CBOR
        {
            let bytes = base64::decode(text).ok_or_else(wrong)?;
            return Value::from_cbor(bytes.into()).map(Self).map_err(|_| wrong());
        }
        to_value(&json).map(Self).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ExactException {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Exact(value) = Exact::deserialize(deserializer)?;
        exception(&value).map(Self).map_err(|why| de::Error::custom(format_args!("not an exception: {why}")))
    }
}

fn exception(value: &Value) -> Result<Exception, minicbor::decode::Error> {
    minicbor::decode(value.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use catena::Fault;

    #[track_caller]
    fn check(cbor: &[u8], json: &str) {
        let value = Exact(Value::from_cbor(cbor.to_vec().into()).unwrap());
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
        assert_eq!(serde_json::from_str::<Exact>(json).unwrap(), value);
    }

    #[test]
    fn every_value_comes_back_byte_for_byte() {
        check(&[0xa1, 0x61, b'a', 0x82, 0x01, 0xf6], r#"{"a":[1,null]}"#);
        check(&[0x42, 0x00, 0xff], r#"{"$bytes":"AP8="}"#);
        check(&[0xf7], r#"{"$cbor":"9w=="}"#);
        check(&[0xc1, 0x00], r#"{"$cbor":"wQA="}"#);
        check(&[0xf9, 0x7e, 0x00], r#"{"$cbor":"+X4A"}"#);
        // What a program itself calls so is no mark.
        check(&[0xa1, 0x65, b'$', b'c', b'b', b'o', b'r', 0x61, b'x'], r#"{"$cbor":"oWUkY2JvcmF4"}"#);
        assert!(serde_json::from_str::<Exact>(r#"{"$cbor":"?"}"#).is_err());
    }

    #[test]
    fn an_exception_comes_back_whole() {
        let why = Exception::new("Refused", Fault::Service, "not today").at_step(2, &["a".into()]).outcome_unknown();
        for params in [None, Some(Value::encode(&7_u8)), Some(Value::from_cbor(vec![0xf7].into()).unwrap())] {
            let why = ExactException(Exception { params, ..why.clone() });
            let json = serde_json::to_string(&why).unwrap();
            assert_eq!(serde_json::from_str::<ExactException>(&json).unwrap(), why, "{json}");
        }
    }
}
