//! Conversion between serde types and payload values (CBOR, RFC 8949).

use std::cell::Cell;

use bytes::Bytes;
use catena_wire::{Exception, Fault, Value, names};
use serde::{Serialize, de::DeserializeOwned};

/// Encodes a serde value. Byte fields need `serde_bytes`, or they become arrays of numbers.
///
/// # Errors
/// `BadParameters` if the type's own `Serialize` fails, or the value nests deeper than 64.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, Exception> {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let mut serializer = minicbor_serde::Serializer::new(&mut scratch);
    serializer.serialize_unit_as_null(true);
    value.serialize(&mut serializer).map_err(|why| bad(&format!("the value cannot be encoded: {why}")))?;
    let bytes = if scratch.capacity() > SCRATCH_BYTES_MAX {
        scratch.into()
    } else {
        let bytes = Bytes::copy_from_slice(&scratch);
        SCRATCH.set(scratch);
        bytes
    };
    Value::from_cbor(bytes).map_err(|why| bad(&format!("the value cannot be encoded: {why}")))
}

/// A scratch buffer that has grown beyond this becomes the value itself, and is not reused.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// The buffer in which values are encoded, so that each value then allocates exactly as much memory as it needs.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Decodes into a serde type.
///
/// # Errors
/// `BadParameters`, saying what was expected.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Exception> {
    let decoded = minicbor_serde::from_slice(value.as_bytes());
    // `minicbor_serde` reads `()` only from an empty array, but everybody else writes null for it.
    let decoded =
        if *value == Value::null() { decoded.or_else(|_| minicbor_serde::from_slice(&[0x80])) } else { decoded };
    decoded.map_err(|why| bad(&format!("{why}; it was {value:?}")))
}

fn bad(message: &str) -> Exception {
    Exception::new(names::BAD_PARAMETERS, Fault::Caller, message)
}
