//! What a program imports from `"catena"`, and `Math.random`.

use alloc::format;
use alloc::string::String;

use minicbor::Encoder;

use crate::encode::{self, Trouble};
use crate::engine::{self, Phase};
use crate::js::{self, ErrorClass, Js, Pending, Value};
use crate::layers;
use crate::limits;
use crate::outbox::{Outbox, Written};
use crate::position;

static UNDEFINED: js::Single<Value> = js::Single(Value::UNDEFINED);

pub(crate) fn arg(args: &[Value], i: usize) -> &Value {
    args.get(i).unwrap_or(&UNDEFINED.0)
}

pub(crate) fn check_running(function: &str) -> Js<()> {
    if limits::broken().is_some() {
        return Err(js::throw_uncatchable("a limit is broken"));
    }
    if engine::phase() == Phase::Running {
        return Ok(());
    }
    let message = format!("{function}() has no chain at the top level of a module; use it inside the function");
    Err(js::throw_error(ErrorClass::Error, &message))
}

/// `call(target, params)`: the promise of what a service's function answers.
pub(crate) fn call(args: &[Value]) -> Js<Value> {
    check_running("call")?;
    call_of("call", 0, args, None)
}

/// Sends an event of this kind that names a function, and its parameters; the promise of what comes of it, which reads this set if it is
/// one.
pub(crate) fn call_of(api: &str, kind: u8, args: &[Value], set: Option<u32>) -> Js<Value> {
    let (target, params) = (arg(args, 0), arg(args, 1));
    if !target.is_string() {
        return Err(bad_target(api, &exception_text(target)));
    }
    let target = target.to_text()?;
    let target = target.get();
    let (service, function) = match target.rsplit_once('/') {
        Some((service, function)) if !service.is_empty() && !function.is_empty() => (service, function),
        _ => return Err(bad_target(api, &target)),
    };
    let at = position::here()?;
    let call = engine::next_call();
    send(
        "params",
        params,
        |e| e.array(7)?.u8(kind)?.u32(call)?.str(service)?.str(function)?.ok(),
        |e| e.u32(at.line)?.u32(at.column)?.ok(),
    )?;
    match set {
        Some(set) => engine::issue_read(call, set),
        None => engine::issue(call),
    }
}

fn bad_target(api: &str, given: &str) -> Pending {
    let message =
        format!("{api}: the target must be \"service/function\", such as \"mail.storage/get\", not {given:?}");
    js::throw_error(ErrorClass::TypeError, &message)
}

fn exception_text(value: &Value) -> String {
    crate::exception::plain_text(value)
}

/// `emit(value)`: an intermediate answer for the origin.
pub(crate) fn emit(args: &[Value]) -> Js<Value> {
    check_running("emit")?;
    send("the emitted value", arg(args, 0), |e| e.array(2)?.u8(3)?.ok(), |_| Ok(()))?;
    Ok(Value::UNDEFINED)
}

/// `log(...values)`: a line of text for whoever watches.
pub(crate) fn log(args: &[Value]) -> Js<Value> {
    check_running("log")?;
    let mut line = String::new();
    for (i, value) in args.iter().enumerate() {
        if i > 0 {
            line.push(' ');
        }
        line.push_str(&log_text(value)?);
    }
    write(|out| out.event(|e| e.array(2)?.u8(4)?.str(&line)?.ok()).map_err(Trouble::Full), "")?;
    Ok(Value::UNDEFINED)
}

/// Objects as JSON, everything else (and what has no JSON) as `String(value)`.
fn log_text(value: &Value) -> Js<String> {
    if value.is_object() && !value.is_error() && !value.is_function() {
        match value.to_json() {
            Ok(json) if json.is_string() => return Ok(json.to_text()?.get().into_owned()),
            Ok(_) => {}
            Err(pending) => {
                let thrown = js::take_exception();
                if thrown.is_uncatchable() {
                    js::throw(thrown);
                    return Err(pending);
                }
            }
        }
    }
    Ok(exception_text(value))
}

/// A blob of its parts: for the layers alone.
pub(crate) fn blob(args: &[Value]) -> Js<Value> {
    layers::blob(arg(args, 0).clone())
}

/// `Math.random()`.
pub(crate) fn random(_: &[Value]) -> Js<Value> {
    // 53 bits: every double in [0, 1) with that step.
    Ok(Value::number((engine::next_random() >> 11) as f64 / (1u64 << 53) as f64))
}

/// Sends an event that holds a value of the program.
fn send(
    what: &str,
    value: &Value,
    before: impl FnOnce(&mut Encoder<&mut Outbox>) -> Written<()>,
    after: impl FnOnce(&mut Encoder<&mut Outbox>) -> Written<()>,
) -> Js<()> {
    write(
        |out| {
            let mark = out.mark();
            let written = whole(out, value, before, after);
            match written {
                Ok(()) => out.count_event(),
                Err(_) => out.back_to(mark),
            }
            written
        },
        what,
    )
}

fn whole(
    out: &mut Outbox,
    value: &Value,
    before: impl FnOnce(&mut Encoder<&mut Outbox>) -> Written<()>,
    after: impl FnOnce(&mut Encoder<&mut Outbox>) -> Written<()>,
) -> Result<(), Trouble> {
    before(&mut Encoder::new(&mut *out))?;
    encode::value(out, value)?;
    after(&mut Encoder::new(&mut *out))?;
    Ok(())
}

pub(crate) fn write(write: impl FnOnce(&mut Outbox) -> Result<(), Trouble>, what: &str) -> Js<()> {
    match engine::with_outbox(write) {
        None => {
            Err(js::throw_error(ErrorClass::Error, "a getter cannot call, emit or log while its object is being sent"))
        }
        Some(Ok(())) => Ok(()),
        Some(Err(Trouble::Threw(pending))) => Err(pending),
        Some(Err(Trouble::Full(full))) => {
            limits::set_broken(engine::limit_of(full));
            Err(js::throw_uncatchable("the function sends too much in one step"))
        }
        Some(Err(Trouble::Unfit(path, why))) => {
            Err(js::throw_error(ErrorClass::TypeError, &encode::unfit_message(what, &path, &why)))
        }
    }
}
