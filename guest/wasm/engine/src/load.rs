//! A module's source becomes a function that waits for its input.

use alloc::borrow::ToOwned;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;

use minicbor::Decoder;
use minicbor::decode::Error;

use crate::engine::{self, Phase};
use crate::exception::{self, Report};
use crate::heap;
use crate::js::{self, CompileError, Pending, PromiseState, Value};
use crate::limits;
use crate::native;
use crate::position::{self, Position};

/// `catena_load`.
pub(crate) fn load(event: &[u8]) {
    engine::with_outbox(|out| out.begin(u32::MAX as usize));
    let result =
        read(event).map_err(|_| Report::of_node("BadEvent", "the host's event is not what the guest ABI says"));
    let loaded = result.and_then(|(name, source)| take_in(name, source));
    match loaded {
        Ok(function) => {
            engine::set_function(function);
            engine::set_phase(Phase::Ready);
            engine::with_outbox(|out| out.event(|e| e.array(1)?.u8(7)?.ok()));
        }
        Err(report) => engine::fail(&report),
    }
    js::keep_for_good();
    heap::seal();
}

fn read(event: &[u8]) -> Result<(&str, &str), Error> {
    let mut from = Decoder::new(event);
    from.array()?;
    Ok((from.str()?, from.str()?))
}

fn take_in(name: &str, source: &str) -> Result<Value, Report> {
    if engine::phase() != Phase::Empty {
        return Err(Report::of_node("BadState", "this engine holds a function already"));
    }
    engine::set_module_name(name);
    let code = {
        let zero = |_| Report::of_guest("SyntaxError", "the source or its name holds a zero byte");
        let c_name = CString::new(name).map_err(zero)?;
        let c_source = CString::new(source).map_err(zero)?;
        js::compile(&c_name, &c_source).map_err(|error| compile_report(error, source))?
    };
    // What only the compiler needed is gone; what stays begins in fresh memory.
    heap::seal();
    engine::set_phase(Phase::Loading);
    let module = js::evaluate(&code).map_err(thrown_report)?;
    drop(code);
    if let Some(thrown) = engine::run_jobs() {
        return Err(value_report(&thrown));
    }
    match module.evaluation.promise_state() {
        PromiseState::Fulfilled(_) => {}
        PromiseState::Rejected(error) => return Err(value_report(&error)),
        PromiseState::Waits => {
            return Err(Report::of_guest(
                "Error",
                "the module's top level awaits something that never comes; await inside the function",
            ));
        }
    }
    if engine::take_chainless_read() {
        return Err(Report::of_guest(
            "Error",
            "the module's top level reads the time or Math.random, but there is no chain yet; read them inside the function",
        ));
    }
    let function = module.namespace.get(js::name(|n| &n.default)).map_err(thrown_report)?;
    if !function.is_function() {
        return Err(Report::of_guest(
            "TypeError",
            "the module has no default export that is a function; write `export default async function name(input) { ... }`",
        ));
    }
    Ok(function)
}

fn thrown_report(_: Pending) -> Report {
    value_report(&js::take_exception())
}

/// What is told about a value that the module's top level threw.
fn value_report(thrown: &Value) -> Report {
    if let Some(limit) = limits::broken() {
        let mut report = Report::of_guest("LimitExceeded", &format!("{}: {}", limit.name(), limit.message()));
        limits::set_broken_at(position::of_error(thrown));
        report.at = limits::broken_at();
        report.stack = position::stack_of(thrown);
        return report;
    }
    let text = exception::plain_text(thrown);
    let (name, message) = match text.split_once(": ") {
        Some((name, message)) if thrown.is_error() => (name.to_owned(), message.to_owned()),
        _ => ("Error".to_owned(), text.clone()),
    };
    let mut report = Report::of_guest(&name, &message);
    report.at = position::of_error(thrown);
    report.stack = position::stack_of(thrown);
    report
}

fn compile_report(error: CompileError, source: &str) -> Report {
    let name = if error.name.is_empty() { "SyntaxError".to_owned() } else { error.name };
    let mut report = Report::of_guest(&name, &error.message);
    report.at = position::in_stack(&error.stack);
    report.stack = error.stack.trim_end().to_owned();
    let refused = native::take_refused_import();
    if !refused.is_empty() {
        report.at = find_quoted(source, &String::from_utf8_lossy(&refused));
    }
    report
}

/// Where an import's name stands in the source: the engine resolves imports after parsing and knows no place.
fn find_quoted(source: &str, name: &str) -> Position {
    let found = ['"', '\''].into_iter().filter_map(|quote| source.find(&format!("{quote}{name}{quote}"))).min();
    let Some(at) = found else { return Position::UNKNOWN };
    let before = &source[..at];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    Position { line: before.matches('\n').count() as u32 + 1, column: before[line_start..].chars().count() as u32 + 1 }
}
