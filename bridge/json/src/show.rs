//! Payload values to JSON, for people and programs. Walks the encoded bytes once, so a large value costs no tree.

use std::cell::RefCell;

use catena::Value;
use minicbor::{
    data::Type,
    decode::{Decoder, Error},
};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap, SerializeSeq},
};

use crate::{BYTES, base64, when};

/// Depth limit; payloads are nested at most 64 deep (`VALUE_DEPTH_MAX`), tags included.
const DEPTH_MAX: usize = 72;
/// A blob: `[where, first, size, media type]`. `where` contains the grant by which it is read, which must not be shown to whoever sees the JSON.
const BLOB_TAG: u64 = 1_128_418_370;
/// Big integers up to this size are written in decimal, larger ones in hexadecimal.
const DECIMAL_BYTES_MAX: usize = 256;

/// A payload, to be written as JSON.
///
/// Bytes become `{"$bytes": BASE64}`, `undefined` null, a date its ISO 8601 text, a set an array, an integer that JSON's numbers cannot
/// hold a string of its digits, a blob `{"$blob": {"type": MEDIA TYPE, "size": BYTES}}` without what it is read by, a map with other keys than text `{"$map": [[KEY, VALUE], ...]}`, any other tag `{"$tag": N, "value": ...}`.
pub struct Shown<'a>(pub &'a Value);

/// Returns the address at which a blob, passed as CBOR, can be fetched, if there is one.
pub type Address<'a> = &'a dyn Fn(&[u8]) -> Option<String>;

/// The same, with the address of each blob as its `url`.
pub struct Addressed<'a>(pub &'a Value, pub Address<'a>);

/// What is shown about a blob.
#[derive(Serialize)]
struct Described<'b> {
    r#type: &'b str,
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Consumes the whole item; shows nothing of one that is not a valid blob.
fn described<'b>(from: &mut Decoder<'b>) -> Result<Described<'b>, Error> {
    let mut inside = from.clone();
    from.skip()?;
    let mut look = || {
        inside.array()?;
        inside.skip()?;
        inside.skip()?;
        let size = inside.u64()?;
        Ok::<_, Error>(Described { r#type: inside.str()?, size: Some(size), url: None })
    };
    Ok(look().unwrap_or(Described { r#type: "", size: None, url: None }))
}

/// An object with one key, serialized directly: a payload keeps the order of its own keys.
pub struct OneKey<T>(pub &'static str, pub T);

impl<T: Serialize> Serialize for OneKey<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &self.1)?;
        map.end()
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Item { from: &RefCell::new(Decoder::new(self.0.as_bytes())), depth: 0, address: None }.serialize(serializer)
    }
}

impl Serialize for Addressed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, address) = self;
        let from = &RefCell::new(Decoder::new(value.as_bytes()));
        Item { from, depth: 0, address: Some(*address) }.serialize(serializer)
    }
}

/// The item at which the decoder stands.
struct Item<'d, 'b> {
    from: &'d RefCell<Decoder<'b>>,
    depth: usize,
    address: Option<Address<'d>>,
}

impl<'d, 'b> Item<'d, 'b> {
    /// Takes something out of the decoder.
    fn take<T, E: serde::ser::Error>(&self, take: impl FnOnce(&mut Decoder<'b>) -> Result<T, Error>) -> Result<T, E> {
        take(&mut self.from.borrow_mut()).map_err(E::custom)
    }

    const fn inner(&self) -> Item<'d, 'b> {
        Item { from: self.from, depth: self.depth + 1, address: self.address }
    }

    /// Whether another item of this collection follows; a break is consumed.
    fn more<E: serde::ser::Error>(&self, left: &mut Option<u64>) -> Result<bool, E> {
        if let Some(left) = left {
            let more = *left > 0;
            *left = left.saturating_sub(1);
            return Ok(more);
        }
        self.take(|d| {
            let more = d.datatype()? != Type::Break;
            if !more {
                d.skip()?;
            }
            Ok(more)
        })
    }

    fn array<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut left = self.take(Decoder::array)?;
        let mut array = serializer.serialize_seq(None)?;
        while self.more(&mut left)? {
            array.serialize_element(&self.inner())?;
        }
        array.end()
    }

    fn map<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text_only = self.take(|d| has_text_keys_only(d.clone()))?;
        let mut map = serializer.serialize_map(None)?;
        if text_only {
            let mut left = self.take(Decoder::map)?;
            while self.more(&mut left)? {
                let key = self.take(text)?;
                map.serialize_entry(&key, &self.inner())?;
            }
        } else {
            map.serialize_entry("$map", &Pairs(self))?;
        }
        map.end()
    }

    fn tagged<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let begins = self.from.borrow().position();
        let tag = self.take(|d| Ok(d.tag()?.as_u64()))?;
        let next = self.take(|d| d.datatype())?;
        match (tag, next) {
            // RFC 8949 section 3.4: 0 and 1 dates, 2 and 3 big integers; 258 a set.
            (0 | 258, _) => self.inner().serialize(serializer),
            (1, Type::F16 | Type::F32 | Type::F64) => {
                let seconds = self.take(Decoder::f64)?;
                serializer.serialize_str(&when::iso(seconds))
            }
            (1, Type::U8 | Type::U16 | Type::U32 | Type::I8 | Type::I16 | Type::I32) => {
                let seconds = self.take(Decoder::i64)?;
                serializer.serialize_str(&when::iso(seconds as f64))
            }
            (2 | 3, Type::Bytes) => {
                let bytes = self.take(Decoder::bytes)?;
                serializer.serialize_str(&big_integer(tag == 3, bytes))
            }
            (BLOB_TAG, _) => {
                let mut described = self.take(described)?;
                if described.size.is_some() {
                    let from = self.from.borrow();
                    let item = from.input().get(begins..from.position()).unwrap_or_default();
                    described.url = self.address.and_then(|address| address(item));
                }
                OneKey("$blob", described).serialize(serializer)
            }
            _ => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("$tag", &tag)?;
                map.serialize_entry("value", &self.inner())?;
                map.end()
            }
        }
    }

    fn float<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = self.take(Decoder::f64)?;
        match number {
            _ if number.is_nan() => serializer.serialize_str("NaN"),
            _ if number.is_infinite() => serializer.serialize_str(if number > 0.0 { "Infinity" } else { "-Infinity" }),
            _ => serializer.serialize_f64(number),
        }
    }

    fn integer<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = i128::from(self.take(|d| d.int())?);
        match (u64::try_from(number), i64::try_from(number)) {
            (Ok(number), _) => serializer.serialize_u64(number),
            (_, Ok(number)) => serializer.serialize_i64(number),
            _ => serializer.serialize_str(&number.to_string()),
        }
    }

    fn byte_string<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.take(|d| {
            let mut all = Vec::new();
            for part in d.bytes_iter()? {
                all.extend_from_slice(part?);
            }
            Ok(all)
        })?;
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(BYTES, &base64::encode(&bytes))?;
        map.end()
    }
}

impl Serialize for Item<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.depth > DEPTH_MAX {
            return Err(S::Error::custom("it is nested too deep"));
        }
        match self.take(|d| d.datatype())? {
            Type::Bool => serializer.serialize_bool(self.take(Decoder::bool)?),
            Type::Null | Type::Undefined => {
                self.take(|d| d.skip())?;
                serializer.serialize_unit()
            }
            Type::F16 | Type::F32 | Type::F64 => self.float(serializer),
            Type::Bytes | Type::BytesIndef => self.byte_string(serializer),
            Type::String | Type::StringIndef => serializer.serialize_str(&self.take(text)?),
            Type::Array | Type::ArrayIndef => self.array(serializer),
            Type::Map | Type::MapIndef => self.map(serializer),
            Type::Tag => self.tagged(serializer),
            Type::Simple => serializer.serialize_str(&format!("simple({})", self.take(Decoder::simple)?)),
            Type::Break | Type::Unknown(_) => Err(S::Error::custom("it is not CBOR")),
            _ => self.integer(serializer),
        }
    }
}

/// A map as an array of pairs.
struct Pairs<'p, 'd, 'b>(&'p Item<'d, 'b>);

impl Serialize for Pairs<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut left = self.0.take(Decoder::map)?;
        let mut pairs = serializer.serialize_seq(None)?;
        while self.0.more(&mut left)? {
            // Written in order: the key first, then the value behind it.
            pairs.serialize_element(&(self.0.inner(), self.0.inner()))?;
        }
        pairs.end()
    }
}

fn text(d: &mut Decoder<'_>) -> Result<String, Error> {
    let mut all = String::new();
    for part in d.str_iter()? {
        all.push_str(part?);
    }
    Ok(all)
}

fn has_text_keys_only(mut d: Decoder<'_>) -> Result<bool, Error> {
    let mut left = d.map()?;
    loop {
        let next = match &mut left {
            Some(0) => return Ok(true),
            Some(left) => {
                *left -= 1;
                d.datatype()?
            }
            None => d.datatype()?,
        };
        match next {
            Type::Break => return Ok(true),
            Type::String | Type::StringIndef => {
                d.skip()?;
                d.skip()?;
            }
            _ => return Ok(false),
        }
    }
}

/// RFC 8949 section 3.4.3: a negative one is -1 minus its bytes.
fn big_integer(negative: bool, bytes: &[u8]) -> String {
    let sign = if negative { "-" } else { "" };
    let mut digits: Vec<u8> = bytes.to_vec();
    if negative {
        let carry = digits.iter().rposition(|&byte| byte != u8::MAX);
        let from = carry.map_or(0, |at| at + 1);
        digits.iter_mut().skip(from).for_each(|byte| *byte = 0);
        match carry {
            Some(at) => digits.iter_mut().skip(at).take(1).for_each(|byte| *byte += 1),
            None => digits.insert(0, 1),
        }
    }
    if digits.len() > DECIMAL_BYTES_MAX {
        let hex: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        return format!("{sign}0x{hex}");
    }
    format!("{sign}{}", decimal(digits))
}

/// Divides by ten repeatedly: the numbers are short.
fn decimal(mut number: Vec<u8>) -> String {
    let mut text = Vec::new();
    loop {
        let mut rest = 0_u16;
        for byte in &mut number {
            let part = rest << 8 | u16::from(*byte);
            *byte = u8::try_from(part / 10).unwrap_or(u8::MAX);
            rest = part % 10;
        }
        text.push(char::from_digit(u32::from(rest), 10).unwrap_or('?'));
        if number.iter().all(|&byte| byte == 0) {
            return text.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[track_caller]
    fn check(cbor: &[u8], json: &str) {
        let value = Value::from_cbor(cbor.to_vec().into()).unwrap();
        assert_eq!(serde_json::to_string(&Shown(&value)).unwrap(), json);
    }

    #[test]
    fn every_kind_of_value_is_shown() {
        check(&[0xf7], "null");
        check(&[0x82, 0xf6, 0xf5], "[null,true]");
        check(&[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "18446744073709551615");
        check(&[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "\"-18446744073709551616\"");
        check(&[0xf9, 0x7e, 0x00], "\"NaN\"");
        check(&[0xf9, 0x3e, 0x00], "1.5");
        check(&[0x5f, 0x41, 0x00, 0x41, 0xff, 0xff], r#"{"$bytes":"AP8="}"#);
        check(&[0x7f, 0x61, b'a', 0x61, b'b', 0xff], "\"ab\"");
        check(&[0xbf, 0x61, b'z', 0x01, 0x61, b'a', 0x9f, 0x02, 0xff, 0xff], r#"{"z":1,"a":[2]}"#);
        check(&[0xa1, 0x01, 0xa0], r#"{"$map":[[1,{}]]}"#);
        check(&[0xe5], "\"simple(5)\"");
    }

    #[test]
    fn tags_of_javascript_are_shown() {
        check(&[0xc1, 0x1a, 0x51, 0x4b, 0x67, 0xb0], "\"2013-03-21T20:04:00.000Z\"");
        check(&[0xd9, 0x01, 0x02, 0x81, 0x01], "[1]");
        check(&[0xc2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0], "\"18446744073709551616\"");
        check(&[0xc3, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0], "\"-18446744073709551617\"");
        check(&[0xc3, 0x41, 0xff], "\"-256\"");
        let tag = [0xda, 0x43, 0x42, 0x4c, 0x42];
        let blob = [&tag[..], b"\x84\x42\xaa\xbb\x0a\x14\x69image/png"].concat();
        check(&blob, r#"{"$blob":{"type":"image/png","size":20}}"#);
        check(&[&tag[..], b"\x42\xaa\xbb"].concat(), r#"{"$blob":{"type":"","size":null}}"#);
        let value = Value::from_cbor([&b"\x82"[..], &blob, &blob].concat().into()).unwrap();
        let given = RefCell::new(Vec::new());
        let address = |item: &[u8]| {
            given.borrow_mut().push(item.to_vec());
            (given.borrow().len() == 1).then(|| "/blob/1".to_owned())
        };
        assert_eq!(
            serde_json::to_string(&Addressed(&value, &address)).unwrap(),
            r#"[{"$blob":{"type":"image/png","size":20,"url":"/blob/1"}},{"$blob":{"type":"image/png","size":20}}]"#
        );
        assert_eq!(*given.borrow(), [blob.clone(), blob.clone()]);
        let pair = [&b"\x82"[..], &blob, b"\x07"].concat();
        check(&pair, r#"[{"$blob":{"type":"image/png","size":20}},7]"#);
        check(&[0xd8, 0x45, 0x42, 0x01, 0x00], r#"{"$tag":69,"value":{"$bytes":"AQA="}}"#);
    }

    #[test]
    fn the_deepest_payload_is_shown() {
        let mut deep = vec![0x81; 64];
        deep.push(0x01);
        check(&deep, &("[".repeat(64) + "1" + &"]".repeat(64)));
    }
}
