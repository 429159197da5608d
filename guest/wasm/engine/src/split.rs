//! Splitting (rpc-chains section 3.10): the function is forked at its `await split(...)`; each branch runs one of the
//! functions given, and where they merge their results are handed in together.

use alloc::vec::Vec;

use minicbor::Decoder;

use crate::decode::{self, Bad};
use crate::engine;
use crate::exception;
use crate::js::{self, ErrorClass, Js, Pending, Value};
use crate::position;

/// What a split needs to go on: in each branch, and where they merge.
pub(crate) struct Split {
    /// The functions, one for each branch.
    pub(crate) functions: Value,
    /// Whether the outcomes are wanted as they are, like those of `Promise.allSettled`.
    settled: bool,
}

/// `split(functions, { at, settled })`: the promise of all their results.
pub(crate) fn split(args: &[Value]) -> Js<Value> {
    crate::api::check_running("split")?;
    let (functions, options) = (crate::api::arg(args, 0), crate::api::arg(args, 1));
    let count = check(functions)?;
    let option = |name| if options.is_object() { options.get(name) } else { Ok(Value::UNDEFINED) };
    let (at, settled) = (option(js::name(|n| &n.at))?, option(js::name(|n| &n.settled))?.is_true());
    if !at.is_undefined() && !at.is_string() {
        return Err(unfit("`at` is the name of the service at whose node the branches merge, such as \"files.red\""));
    }
    let place = if at.is_string() { Some(at.to_text()?) } else { None };
    let here = position::here()?;
    let call = engine::next_call();
    crate::api::write(
        |out| {
            let event = out.event(|e| {
                e.array(6)?.u8(8)?.u32(call)?.u32(count)?;
                match &place {
                    Some(place) => e.str(&place.get())?,
                    None => e.null()?,
                };
                e.u32(here.line)?.u32(here.column)?.ok()
            });
            event.map_err(crate::encode::Trouble::Full)
        },
        "",
    )?;
    engine::issue_split(call, Split { functions: functions.clone(), settled })
}

fn check(functions: &Value) -> Js<u32> {
    let count = if functions.is_array() { u32::try_from(functions.len()?).unwrap_or(u32::MAX) } else { 0 };
    for i in 0..count {
        if !functions.get_index(i)?.is_function() {
            return Err(unfit("each branch is a function: split([async () => ..., async () => ...])"));
        }
    }
    if count == 0 {
        return Err(unfit("split takes an array of functions, one for each branch"));
    }
    Ok(count)
}

fn unfit(why: &str) -> Pending {
    js::throw_error(ErrorClass::TypeError, why)
}

/// What the merge host says: `[true, value]` or `[false, exception]` for each branch. The answer says whether the split's
/// promise resolves, and to what.
pub(crate) fn merged(from: &mut Decoder<'_>, split: &Split) -> Result<(bool, Value), Bad> {
    let count = from.array()?.ok_or(Bad::Malformed)?;
    let mut values = Vec::new();
    let mut thrown = None;
    for _ in 0..count {
        from.array()?;
        let ok = from.bool()?;
        let value = if ok { decode::value(from)? } else { exception::to_error(from)? };
        if split.settled {
            values.push(outcome(ok, value)?);
        } else if ok {
            values.push(value);
        } else {
            // The first in their order, whichever was first in time: a step done twice must take the same path.
            thrown.get_or_insert(value);
        }
    }
    Ok(match thrown {
        Some(thrown) => (false, thrown),
        None => (true, Value::array(values)?),
    })
}

/// As `Promise.allSettled` has it.
fn outcome(ok: bool, value: Value) -> Js<Value> {
    let outcome = Value::object()?;
    outcome.put(js::name(|n| &n.status), Value::string(if ok { "fulfilled" } else { "rejected" })?)?;
    outcome.put(if ok { js::name(|n| &n.value) } else { js::name(|n| &n.reason) }, value)?;
    Ok(outcome)
}
