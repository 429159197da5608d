//! Calls one service after another, each with the result of the one before: the same as `relay`, with explicit state.
//!
//! Input: `{"hops": ["service/function", ...], "value": any}`. The state is the hops left, so it shrinks on the way.

use catena_guest_sdk::{Exception, Raw, Step, done, next, step, threw};
use minicbor::Decoder;

step!(relay);

fn relay(hops_left: Option<Vec<String>>, value: Result<Raw, Exception>) -> Step {
    let value = match value {
        Ok(value) => value,
        Err(exception) => return threw(exception),
    };
    let begun = match hops_left {
        Some(hops) => Ok((hops, value)),
        None => input(&value),
    };
    match begun {
        Ok((hops, value)) => match hops.split_first() {
            Some((target, left)) => next(target, &value, &left),
            None => done(&value),
        },
        Err(error) => threw(Exception::new("BadParameters", error.to_string())),
    }
}

/// The first step's value is the function's input.
fn input(raw: &Raw) -> Result<(Vec<String>, Raw), minicbor::decode::Error> {
    let encoded = minicbor::to_vec(raw).unwrap_or_default();
    let mut d = Decoder::new(&encoded);
    let (mut hops, mut value) = (Vec::new(), Raw::null());
    let count = d.map()?.unwrap_or_default();
    for _ in 0..count {
        match d.str()? {
            "hops" => hops = d.decode()?,
            "value" => value = d.decode()?,
            _ => d.skip()?,
        }
    }
    Ok((hops, value))
}
