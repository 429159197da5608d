//! Payloads: CBOR (RFC 8949) that nodes carry without looking inside.

use bytes::Bytes;
use core::fmt;
use minicbor::{Decode, Encode, data::Type, decode::Decoder};

use crate::limits::VALUE_DEPTH_MAX;

/// One well-formed CBOR item, encoded. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value(Bytes);

/// Why bytes are not a [`Value`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// Not CBOR, or cut short, at this offset.
    Malformed {
        /// Bytes before the malformed one.
        at_bytes: usize,
    },
    /// Nested deeper than [`VALUE_DEPTH_MAX`].
    TooDeep,
    /// Bytes follow the item.
    Trailing {
        /// Length of the item itself.
        at_bytes: usize,
    },
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at_bytes } => write!(f, "not CBOR, or cut short, at byte {at_bytes}"),
            Self::TooDeep => write!(f, "nested deeper than {VALUE_DEPTH_MAX}"),
            Self::Trailing { at_bytes } => {
                write!(f, "bytes follow the value, which ends at byte {at_bytes}")
            }
        }
    }
}

impl core::error::Error for ValueError {}

impl Value {
    /// CBOR null.
    #[must_use]
    pub const fn null() -> Self {
        Self(Bytes::from_static(&[0xf6]))
    }

    /// The items of an array; `None` if this is not an array.
    #[must_use]
    pub fn items(&self) -> Option<alloc::vec::Vec<Self>> {
        let mut d = Decoder::new(&self.0);
        let count = d.array().ok()??;
        let item = |_| {
            let start = d.position();
            d.skip().ok()?;
            Some(Self(self.0.slice(start..d.position())))
        };
        (0..count).map(item).collect()
    }

    /// Checks that `bytes` are exactly one well-formed item, nested at most [`VALUE_DEPTH_MAX`] deep.
    ///
    /// # Errors
    /// See [`ValueError`].
    pub fn from_cbor(bytes: Bytes) -> Result<Self, ValueError> {
        let mut decoder = Decoder::new(&bytes);
        skip(&mut decoder, 0)?;
        match decoder.position() {
            end if end == bytes.len() => Ok(Self(bytes)),
            end => Err(ValueError::Trailing { at_bytes: end }),
        }
    }

    /// Encodes `value`, which cannot fail: the writer is memory.
    #[must_use]
    pub fn encode<T: Encode<()>>(value: &T) -> Self {
        let mut out = alloc::vec::Vec::new();
        // Writing to a `Vec` is infallible; a type whose own `Encode` gives up becomes null.
        match minicbor::encode(value, &mut out) {
            Ok(()) => Self(out.into()),
            Err(_) => Self::null(),
        }
    }

    /// The encoded bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Length of the encoding in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() <= 256 {
            write!(f, "{}", minicbor::display(&self.0))
        } else {
            write!(f, "<{} bytes of CBOR>", self.0.len())
        }
    }
}

/// Takes the next item out of the middle of other bytes, checked as by [`Value::from_cbor`].
pub(crate) fn take(d: &mut Decoder<'_>) -> Result<Value, minicbor::decode::Error> {
    let start = d.position();
    skip(d, 0).map_err(|_| minicbor::decode::Error::message("payload is not CBOR, or nested too deep"))?;
    d.input()
        .get(start..d.position())
        .map(|item| Value(Bytes::copy_from_slice(item)))
        .ok_or_else(minicbor::decode::Error::end_of_input)
}

fn skip(d: &mut Decoder<'_>, depth: usize) -> Result<(), ValueError> {
    if depth > VALUE_DEPTH_MAX {
        return Err(ValueError::TooDeep);
    }
    let at = |d: &Decoder<'_>| ValueError::Malformed { at_bytes: d.position() };
    match d.datatype().map_err(|_| at(d))? {
        Type::Array | Type::ArrayIndef => match d.array().map_err(|_| at(d))? {
            Some(count) => skip_many(d, count, depth),
            None => skip_until_break(d, 1, depth),
        },
        Type::Map | Type::MapIndef => match d.map().map_err(|_| at(d))? {
            Some(count) => skip_many(d, count.checked_mul(2).ok_or_else(|| at(d))?, depth),
            None => skip_until_break(d, 2, depth),
        },
        Type::Tag => {
            d.tag().map_err(|_| at(d))?;
            skip(d, depth + 1)
        }
        Type::Break => Err(at(d)),
        // `skip` on a scalar or a string is not recursive.
        _ => d.skip().map_err(|_| at(d)),
    }
}

fn skip_many(d: &mut Decoder<'_>, count: u64, depth: usize) -> Result<(), ValueError> {
    // Ends at the first missing byte, so a claimed count costs nothing.
    (0..count).try_for_each(|_| skip(d, depth + 1))
}

/// `each`: how many items an entry has. A map's break may not stand where a value belongs.
fn skip_until_break(d: &mut Decoder<'_>, each: u64, depth: usize) -> Result<(), ValueError> {
    loop {
        match d.datatype() {
            Ok(Type::Break) => {
                return d.skip().map_err(|_| ValueError::Malformed { at_bytes: d.position() });
            }
            Ok(_) => skip_many(d, each, depth)?,
            Err(_) => {
                return Err(ValueError::Malformed { at_bytes: d.position() });
            }
        }
    }
}

/// Encoded as a byte string that holds CBOR, so that a node passes it on without walking it.
impl<C> Encode<C> for Value {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Value {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Self::from_cbor(Bytes::copy_from_slice(d.bytes()?))
            .map_err(|_| minicbor::decode::Error::message("payload is not CBOR"))
    }
}
