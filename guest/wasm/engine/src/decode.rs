//! CBOR to JavaScript values. ABI.md says what becomes what.

use alloc::string::String;
use alloc::vec::Vec;

use minicbor::Decoder;
use minicbor::data::{Int, Type};
use minicbor::decode::Error;

use crate::encode::{BLOB_TAG, DEPTH_MAX, SAFE_INTEGER_MAX, TYPED_ARRAY_TAGS};
use crate::js::{self, Js, Key, OwnNames, Pending, Text, Value};
use crate::layers;

/// Why an event could not be taken in.
#[derive(Debug)]
pub(crate) enum Bad {
    /// The engine threw: no memory.
    Threw(Pending),
    /// Not CBOR, or CBOR that has no meaning here.
    Malformed,
}

impl From<Pending> for Bad {
    fn from(pending: Pending) -> Self {
        Bad::Threw(pending)
    }
}

impl From<Error> for Bad {
    fn from(_: Error) -> Self {
        Bad::Malformed
    }
}

/// Reads one value.
pub(crate) fn value(from: &mut Decoder<'_>) -> Result<Value, Bad> {
    nested(from, 0)
}

fn nested(from: &mut Decoder<'_>, depth: usize) -> Result<Value, Bad> {
    if depth > DEPTH_MAX {
        return Err(Error::message("nested more than 64 deep").into());
    }
    Ok(match from.datatype()? {
        Type::Bool => Value::bool(from.bool()?),
        Type::Null => {
            from.null()?;
            Value::NULL
        }
        Type::Undefined => {
            from.undefined()?;
            Value::UNDEFINED
        }
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
            integer(from.int()?)?
        }
        Type::F16 => Value::number(f64::from(from.f16()?)),
        Type::F32 => Value::number(f64::from(from.f32()?)),
        Type::F64 => Value::number(from.f64()?),
        Type::String => Value::string(from.str()?)?,
        Type::StringIndef => Value::string(&text(from)?)?,
        Type::Bytes => Value::bytes(from.bytes()?)?,
        Type::BytesIndef => Value::bytes(&bytes(from)?)?,
        Type::Array | Type::ArrayIndef => Value::array(items(from, depth)?)?,
        Type::Map | Type::MapIndef => object(from, depth)?,
        Type::Tag => tagged(from, depth)?,
        _ => return Err(Error::message("not a payload value").into()),
    })
}

fn integer(n: Int) -> Js<Value> {
    let n = i128::from(n);
    if n.unsigned_abs() <= SAFE_INTEGER_MAX as u128 {
        return Ok(match i32::try_from(n) {
            Ok(n) => Value::int(n),
            Err(_) => Value::number(n as f64),
        });
    }
    match (i64::try_from(n), u64::try_from(n)) {
        (Ok(n), _) => Value::big_int(n),
        (_, Ok(n)) => Value::big_uint(n),
        _ => negative(&n.unsigned_abs().to_be_bytes()),
    }
}

/// The BigInt `-magnitude`.
fn negative(magnitude: &[u8]) -> Js<Value> {
    // A literal with a sign must be decimal; -1 - n is the complement, so we go through `0n - n`'s text form.
    let positive = Value::big_int_of(&hex(magnitude))?;
    let text = positive.to_text()?;
    let mut decimal = String::from("-");
    decimal.push_str(&text.get());
    Value::big_int_of(&decimal)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("0x0");
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

fn text(from: &mut Decoder<'_>) -> Result<String, Error> {
    let mut text = String::new();
    for part in from.str_iter()? {
        text.push_str(part?);
    }
    Ok(text)
}

fn bytes(from: &mut Decoder<'_>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for part in from.bytes_iter()? {
        bytes.extend_from_slice(part?);
    }
    Ok(bytes)
}

/// Whether another item follows: by count, or up to the break, which is consumed.
fn more(from: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, Error> {
    match left {
        Some(0) => Ok(false),
        Some(n) => {
            *n -= 1;
            Ok(true)
        }
        None if from.datatype()? == Type::Break => {
            from.set_position(from.position() + 1);
            Ok(false)
        }
        None => Ok(true),
    }
}

fn items(from: &mut Decoder<'_>, depth: usize) -> Result<Vec<Value>, Bad> {
    let mut left = from.array()?;
    // An item takes at least a byte, so a lie about the count costs nothing.
    let room = from.input().len() - from.position();
    let mut items = Vec::with_capacity(left.map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX).min(room)));
    while more(from, &mut left)? {
        items.push(nested(from, depth + 1)?);
    }
    Ok(items)
}

fn object(from: &mut Decoder<'_>, depth: usize) -> Result<Value, Bad> {
    let mut left = from.map()?;
    let object = Value::object()?;
    while more(from, &mut left)? {
        match from.datatype()? {
            Type::String => put(&object, from.str()?, nested(from, depth + 1)?)?,
            Type::StringIndef => put(&object, &text(from)?, nested(from, depth + 1)?)?,
            _ => return map(from, depth, &object, left),
        }
    }
    Ok(object)
}

fn put(object: &Value, key: &str, value: Value) -> Js<()> {
    object.put(Key::new(key)?.name(), value)
}

/// A key was not text: the object so far becomes a Map, and the rest goes there. `left` no longer counts this entry.
fn map(from: &mut Decoder<'_>, depth: usize, so_far: &Value, mut left: Option<u64>) -> Result<Value, Bad> {
    let map = Value::map()?;
    let set = js::name(|n| &n.set);
    let names = OwnNames::of(so_far)?;
    for i in 0..names.len() {
        let key = Value::string(&Text::of_name(names.get(i))?.get())?;
        map.call_method(set, &[key, so_far.get(names.get(i))?])?;
    }
    loop {
        let key = nested(from, depth + 1)?;
        let value = nested(from, depth + 1)?;
        map.call_method(set, &[key, value])?;
        if !more(from, &mut left)? {
            return Ok(map);
        }
    }
}

fn tagged(from: &mut Decoder<'_>, depth: usize) -> Result<Value, Bad> {
    let tag = from.tag()?.as_u64();
    match tag {
        1 => {
            let seconds = nested(from, depth + 1)?.to_number()?;
            Ok(Value::date(round(seconds * 1000.0))?)
        }
        2 => Ok(Value::big_int_of(&hex(&byte_string(from)?))?),
        3 => {
            let mut magnitude = alloc::vec![0];
            magnitude.extend_from_slice(&byte_string(from)?);
            increment(&mut magnitude);
            Ok(negative(&magnitude)?)
        }
        258 => {
            let set = Value::set()?;
            let add = js::name(|n| &n.add);
            for item in items(from, depth)? {
                set.call_method(add, &[item])?;
            }
            Ok(set)
        }
        64 => nested(from, depth + 1),
        BLOB_TAG => Ok(layers::blob(nested(from, depth + 1)?)?),
        _ => match TYPED_ARRAY_TAGS.iter().find(|(_, t)| *t == tag) {
            Some((kind, _)) => Ok(Value::typed_array(*kind, &byte_string(from)?)?),
            // A tag adds to what a value means; without it the value is still a value.
            None => nested(from, depth + 1),
        },
    }
}

fn byte_string(from: &mut Decoder<'_>) -> Result<Vec<u8>, Error> {
    match from.datatype()? {
        Type::BytesIndef => bytes(from),
        _ => from.bytes().map(<[u8]>::to_vec),
    }
}

/// To the nearest whole number; dates are whole milliseconds.
fn round(n: f64) -> f64 {
    let whole = (n + if n < 0.0 { -0.5 } else { 0.5 }) as i64;
    if n.is_finite() && n.abs() < SAFE_INTEGER_MAX { whole as f64 } else { n }
}

/// Adds one to a big-endian number whose first byte has room.
fn increment(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().rev() {
        let (more, carried) = byte.overflowing_add(1);
        *byte = more;
        if !carried {
            return;
        }
    }
}
