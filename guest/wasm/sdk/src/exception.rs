//! What a call failed with, or the function itself.

use minicbor::{Decode, Decoder, Encode, Encoder, data::Type, decode, encode};

use crate::Raw;

/// An exception, as the guest ABI has it: a map with text keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exception {
    /// Which one.
    pub name: String,
    /// For people.
    pub message: String,
    /// For programs.
    pub params: Option<Raw>,
    /// What else came with the exception of a call: whose fault it is and where it happened, to be handed on with it.
    place: Vec<(String, Raw)>,
}

impl Exception {
    /// An exception without parameters.
    #[must_use]
    pub fn new(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), params: None, place: Vec::new() }
    }

    /// A value that is not of the shape expected.
    pub(crate) fn bad_value(what: &str, error: &decode::Error) -> Self {
        Self::new("BadParameters", format!("{what}: {error}"))
    }
}

impl<C> Encode<C> for Exception {
    fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.map(2 + u64::from(self.params.is_some()) + self.place.len() as u64)?;
        e.str("name")?.str(&self.name)?;
        e.str("message")?.str(&self.message)?;
        if let Some(params) = &self.params {
            e.str("params")?.encode_with(params, ctx)?;
        }
        for (key, value) in &self.place {
            e.str(key)?.encode_with(value, ctx)?;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Exception {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let mut exception = Self::default();
        let count = d.map()?;
        let mut seen = 0;
        while match count {
            Some(count) => seen < count,
            None => d.datatype()? != Type::Break,
        } {
            match d.str()? {
                "name" => exception.name = d.str()?.to_owned(),
                "message" => exception.message = d.str()?.to_owned(),
                "params" => exception.params = Some(d.decode_with(ctx)?),
                key => exception.place.push((key.to_owned(), d.decode_with(ctx)?)),
            }
            seen += 1;
        }
        if count.is_none() {
            d.skip()?;
        }
        Ok(exception)
    }
}
