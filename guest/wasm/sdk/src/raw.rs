//! Values that a function carries without looking inside.

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

const EMPTY_ARRAY: u8 = 0x80;
const NULL: u8 = 0xf6;
const UNDEFINED: u8 = 0xf7;

/// One item of CBOR, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(Vec<u8>);

impl Raw {
    /// Encodes a value. One that gives up becomes null.
    #[must_use]
    pub fn new<T: Encode<()>>(value: &T) -> Self {
        minicbor::to_vec(value).map_or_else(|_| Self::null(), Self)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// CBOR null.
    #[must_use]
    pub fn null() -> Self {
        Self(vec![NULL])
    }

    /// Decodes it. Null, and JavaScript's undefined, are whatever holds nothing: `()`, or `None`.
    ///
    /// # Errors
    /// minicbor's, if it is of another shape.
    pub fn get<'b, T: Decode<'b, ()>>(&'b self) -> Result<T, decode::Error> {
        let decoded = minicbor::decode(&self.0);
        match self.0.as_slice() {
            [NULL | UNDEFINED] if decoded.is_err() => {
                // To minicbor, what holds nothing is an empty array.
                let nothing = if size_of::<T>() == 0 { &[EMPTY_ARRAY] } else { &[NULL] };
                minicbor::decode(nothing).or(decoded)
            }
            _ => decoded,
        }
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self::null()
    }
}

impl<C> Encode<C> for Raw {
    fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.writer_mut().write_all(&self.0).map_err(encode::Error::write)
    }
}

impl<'b, C> Decode<'b, C> for Raw {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        let start = d.position();
        d.skip()?;
        let item = d.input().get(start..d.position());
        item.map(|item| Self(item.to_vec())).ok_or_else(decode::Error::end_of_input)
    }
}
