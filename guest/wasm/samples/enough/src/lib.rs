//! Reads replies as they come, until it has enough: what still works on them is cancelled, and the function goes on elsewhere.
//!
//! Input: `{"target": "service/function", "params": any, "wanted": n, "then": "service/function" | null}`. It emits each reply. Result:
//! `[count, ended, name, [[target, node, name], ...], last]`: how many replies it had; how the set ended, if it did: `complete`, `exception` or `failure`;
//! the name of the exception that said that others are missing, if one did; what is missing; and what the call to `then` answered.

use catena_guest_sdk::{Ended, Exception, Missing, Raw, call, emit, function, replies};
use minicbor::{Decode, Decoder, decode};

function!(enough);

struct Input {
    target: String,
    params: Raw,
    wanted: u64,
    then: Option<String>,
}

type Named = (String, Option<String>, String);

type Had = (u64, Option<&'static str>, Option<String>, Vec<Named>, Raw);

async fn enough(input: Input) -> Result<Had, Exception> {
    let mut seen = replies::<Raw>(&input.target, &input.params);
    let (mut count, mut partial) = (0, None);
    while count < input.wanted
        && let Some(reply) = seen.next().await
    {
        match reply {
            Ok(reply) => {
                emit(&reply);
                count += 1;
            }
            Err(why) => partial = Some(why.name),
        }
    }
    let ended = seen.ended().map(|ended| match ended {
        Ended::Complete => "complete",
        Ended::Exception => "exception",
        Ended::Failure => "failure",
    });
    let missing = seen.missing().iter().map(named).collect();
    drop(seen);
    let last = match &input.then {
        Some(target) => call(target, &Raw::null()).await?,
        None => Raw::null(),
    };
    Ok((count, ended, partial, missing, last))
}

fn named(missing: &Missing) -> Named {
    (missing.target.clone(), missing.node.clone(), missing.why.name.clone())
}

impl<'b, C> Decode<'b, C> for Input {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let mut input = Self { target: String::new(), params: Raw::null(), wanted: 0, then: None };
        let count = d.map()?.ok_or_else(|| decode::Error::message("a map of definite length is expected"))?;
        for _ in 0..count {
            match d.str()? {
                "target" => input.target = d.decode_with(ctx)?,
                "params" => input.params = d.decode_with(ctx)?,
                "wanted" => input.wanted = d.u64()?,
                "then" => input.then = d.decode_with(ctx)?,
                _ => d.skip()?,
            }
        }
        Ok(input)
    }
}
