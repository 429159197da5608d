//! Calls one service after another, each with the result of the one before.
//!
//! Input: `{"hops": ["service/function", ...], "value": any}`. Result: what the last one answered.

use catena_guest_sdk::{Exception, Raw, call, function};
use minicbor::{Decode, Decoder, decode};

function!(relay);

struct Input {
    hops: Vec<String>,
    value: Raw,
}

async fn relay(input: Input) -> Result<Raw, Exception> {
    let mut value = input.value;
    for target in &input.hops {
        value = call(target, &value).await?;
    }
    Ok(value)
}

impl<'b, C> Decode<'b, C> for Input {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let mut input = Self { hops: Vec::new(), value: Raw::null() };
        let count = d.map()?.ok_or_else(|| decode::Error::message("a map of definite length is expected"))?;
        for _ in 0..count {
            match d.str()? {
                "hops" => input.hops = d.decode_with(ctx)?,
                "value" => input.value = d.decode_with(ctx)?,
                _ => d.skip()?,
            }
        }
        Ok(input)
    }
}
