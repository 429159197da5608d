//! Calls that are answered many times: asked for, read in batches, and left. The set itself is the host's; what a program sees of it is
//! in `layers.js`.

use alloc::vec::Vec;

use minicbor::{Decoder, data::Type};

use crate::api::{self, arg, check_running};
use crate::decode::{self, Bad};
use crate::encode::Trouble;
use crate::engine;
use crate::exception;
use crate::js::{self, Js, Kind, Value};

/// `ask(target, params)`: `[set, promise]`, the set's number and the promise of its first replies.
pub(crate) fn ask(args: &[Value]) -> Js<Value> {
    check_running("replies")?;
    let set = engine::next_call();
    let first = api::call_of("replies", 9, args, Some(set))?;
    Value::array(Vec::from([number(set), first]))
}

/// `read(set)`: the promise of what has come since.
pub(crate) fn read(args: &[Value]) -> Js<Value> {
    check_running("replies")?;
    let (set, call) = (set_of(args), engine::next_call());
    api::write(|out| out.event(|e| e.array(3)?.u8(10)?.u32(call)?.u32(set)?.ok()).map_err(Trouble::Full), "")?;
    engine::issue_read(call, set)
}

/// `leave(set)`: nothing more of it is wanted. A read of it that is out never settles.
pub(crate) fn leave(args: &[Value]) -> Js<Value> {
    check_running("replies")?;
    let set = set_of(args);
    api::write(|out| out.event(|e| e.array(2)?.u8(11)?.u32(set)?.ok()).map_err(Trouble::Full), "")?;
    engine::forget_reads(set);
    Ok(Value::UNDEFINED)
}

fn number(set: u32) -> Value {
    Value::number(f64::from(set))
}

/// The layers hand back what [`ask`] gave them.
fn set_of(args: &[Value]) -> u32 {
    match arg(args, 0).kind() {
        Kind::Int(set) => set.unsigned_abs(),
        Kind::Float(set) => set as u32,
        _ => u32::MAX,
    }
}

/// What the host says of a set: `[replies, over]`, as `{ replies, over: undefined | { missing: [{ target, node, why }], why, failed } }`.
pub(crate) fn told(from: &mut Decoder<'_>) -> Result<Value, Bad> {
    from.array()?;
    let count = from.array()?.ok_or(Bad::Malformed)?;
    let mut replies = Vec::new();
    for _ in 0..count {
        replies.push(decode::value(from)?);
    }
    let told = Value::object()?;
    told.put(js::name(|n| &n.replies), Value::array(replies)?)?;
    if from.datatype()? == Type::Null {
        from.null()?;
        return Ok(told);
    }
    from.array()?;
    let count = from.array()?.ok_or(Bad::Malformed)?;
    let mut missing = Vec::new();
    for _ in 0..count {
        from.array()?;
        let one = Value::object()?;
        one.put(js::name(|n| &n.target), decode::value(from)?)?;
        one.put(js::name(|n| &n.node), decode::value(from)?)?;
        one.put(js::name(|n| &n.why), exception::to_error(from)?)?;
        missing.push(one);
    }
    let over = Value::object()?;
    over.put(js::name(|n| &n.missing), Value::array(missing)?)?;
    if from.datatype()? == Type::Null {
        from.null()?;
    } else {
        over.put(js::name(|n| &n.why), exception::to_error(from)?)?;
    }
    over.put(js::name(|n| &n.failed), decode::value(from)?)?;
    told.put(js::name(|n| &n.over), over)?;
    Ok(told)
}
