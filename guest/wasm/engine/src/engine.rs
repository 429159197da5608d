//! What the engine remembers, and one turn: take an event in, run the program until it only waits, tell what happened.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use minicbor::Decoder;

use crate::decode::{self, Bad};
use crate::encode::{self, Trouble};
use crate::exception::{self, Report};
use crate::js::{self, Deferred, Js, Pending, PromiseState, Single, Value};
use crate::limits::{self, Limit};
use crate::outbox::{Full, Outbox};
use crate::position::{self, Position};
use crate::random;
use crate::replies;
use crate::split::{self, Split};

/// How far the function has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No function yet.
    Empty,
    /// The module's top level runs.
    Loading,
    /// The function waits for its input.
    Ready,
    /// The function has begun.
    Running,
    /// Nothing more will come.
    Over,
}

/// A call that has not settled.
struct Waiting {
    call: u32,
    deferred: Deferred,
    what: What,
}

/// What settles.
enum What {
    Call,
    Split(Split),
    /// What has come of this set.
    Read(u32),
}

/// Everything that must survive a move, apart from what QuickJS itself remembers.
pub(crate) struct Engine {
    phase: Cell<Phase>,
    module_name: RefCell<String>,
    function: RefCell<Option<Value>>,
    /// The promise of the function's result.
    result: RefCell<Option<Value>>,
    waiting: RefCell<Vec<Waiting>>,
    calls: Cell<u32>,
    started_at_ms: Cell<f64>,
    seed: Cell<u64>,
    /// `Date` or `Math.random` was asked for while there was no chain yet.
    chainless_read: Cell<bool>,
    /// Absent while something is being written to it.
    outbox: RefCell<Option<Outbox>>,
}

static ENGINE: Single<Engine> = Single(Engine {
    phase: Cell::new(Phase::Empty),
    module_name: RefCell::new(String::new()),
    function: RefCell::new(None),
    result: RefCell::new(None),
    waiting: RefCell::new(Vec::new()),
    calls: Cell::new(0),
    started_at_ms: Cell::new(0.0),
    seed: Cell::new(0),
    chainless_read: Cell::new(false),
    outbox: RefCell::new(Some(Outbox::new())),
});

fn engine() -> &'static Engine {
    &ENGINE.0
}

/// How far the function has come.
pub(crate) fn phase() -> Phase {
    engine().phase.get()
}

pub(crate) fn set_phase(phase: Phase) {
    engine().phase.set(phase);
}

/// The chain's start, milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> f64 {
    if phase() == Phase::Loading {
        engine().chainless_read.set(true);
    }
    engine().started_at_ms.get()
}

/// The next number of the chain's own sequence.
pub(crate) fn next_random() -> u64 {
    if phase() == Phase::Loading {
        engine().chainless_read.set(true);
    }
    let state = random::advance(engine().seed.get(), 1);
    engine().seed.set(state);
    random::mix(state)
}

/// Whether a clock or randomness was read since the last time this was asked.
pub(crate) fn take_chainless_read() -> bool {
    engine().chainless_read.take()
}

pub(crate) fn with_module_name<R>(read: impl FnOnce(&str) -> R) -> R {
    read(&engine().module_name.borrow())
}

pub(crate) fn set_module_name(name: &str) {
    *engine().module_name.borrow_mut() = String::from(name);
}

pub(crate) fn set_function(function: Value) {
    engine().function.replace(Some(function));
}

/// Where the chain's function stands in the source.
pub(crate) fn function_place() -> Position {
    engine().function.borrow().as_ref().map_or(Position::UNKNOWN, position::of_function)
}

/// Lends the outbox out. `None`: it is being written to further up the stack, by whatever runs a getter.
pub(crate) fn with_outbox<R>(write: impl FnOnce(&mut Outbox) -> R) -> Option<R> {
    let mut outbox = engine().outbox.borrow_mut().take()?;
    let result = write(&mut outbox);
    engine().outbox.replace(Some(outbox));
    Some(result)
}

/// A call that goes out: its number, and the promise of its result.
pub(crate) fn issue(call: u32) -> Js<Value> {
    issue_any(call, What::Call)
}

/// A split that goes out: the promise of what its branches bring.
pub(crate) fn issue_split(call: u32, split: Split) -> Js<Value> {
    issue_any(call, What::Split(split))
}

/// A read that goes out: the promise of what has come of the set.
pub(crate) fn issue_read(call: u32, set: u32) -> Js<Value> {
    issue_any(call, What::Read(set))
}

/// Reads of this set will not settle.
pub(crate) fn forget_reads(set: u32) {
    engine().waiting.borrow_mut().retain(|waiting| !matches!(waiting.what, What::Read(of) if of == set));
}

fn issue_any(call: u32, what: What) -> Js<Value> {
    let deferred = Deferred::new()?;
    let promise = deferred.promise.clone();
    engine().waiting.borrow_mut().push(Waiting { call, deferred, what });
    engine().calls.set(call + 1);
    Ok(promise)
}

/// The number that the next call will have.
pub(crate) fn next_call() -> u32 {
    engine().calls.get()
}

/// `catena_start`.
pub(crate) fn start(event: &[u8]) {
    turn(event, |from, out| {
        from.array()?;
        let input = decode::value(from)?;
        engine().started_at_ms.set(from.u64()? as f64);
        engine().seed.set(from.u64()?);
        out(from.u32()?);
        if phase() != Phase::Ready {
            return Ok(Err(Report::of_node("BadState", "there is no loaded function that waits for its input")));
        }
        set_phase(Phase::Running);
        let function = engine().function.borrow().clone().unwrap_or(Value::UNDEFINED);
        let result = function.call(&Value::UNDEFINED, &[input]).and_then(as_promise)?;
        engine().result.replace(Some(result));
        Ok(Ok(()))
    });
}

/// What the function answered, as a promise.
fn as_promise(answer: Value) -> Js<Value> {
    if answer.is_promise() {
        return Ok(answer);
    }
    let deferred = Deferred::new()?;
    deferred.resolve.call(&Value::UNDEFINED, &[answer])?;
    Ok(deferred.promise)
}

/// `catena_resume`.
pub(crate) fn resume(event: &[u8]) {
    turn(event, |from, out| {
        from.array()?;
        let call = from.u32()?;
        if phase() != Phase::Running {
            return Ok(Err(Report::of_node("BadState", "the function does not wait for anything")));
        }
        let waiting = {
            let mut all = engine().waiting.borrow_mut();
            all.iter().position(|w| w.call == call).map(|i| all.swap_remove(i))
        };
        let Some(Waiting { deferred, what, .. }) = waiting else {
            return Ok(Err(Report::of_node("BadState", "that call has settled before, or was never made")));
        };
        if from.datatype()? == minicbor::data::Type::Null {
            return begin_branch(call, from, out, &what);
        }
        let ok = from.bool()?;
        let (ok, value) = match (ok, &what) {
            (true, What::Call) => (true, decode::value(from)?),
            (true, What::Split(split)) => split::merged(from, split)?,
            (true, What::Read(_)) => (true, replies::told(from)?),
            (false, _) => (false, exception::to_error(from)?),
        };
        out(from.u32()?);
        let settle = if ok { &deferred.resolve } else { &deferred.reject };
        settle.call(&Value::UNDEFINED, &[value])?;
        Ok(Ok(()))
    });
}

/// In this copy of the function only one branch of its split goes on: what that returns is the end.
fn begin_branch(
    call: u32,
    from: &mut Decoder<'_>,
    out: &mut dyn FnMut(u32),
    what: &What,
) -> Result<Result<(), Report>, Bad> {
    from.null()?;
    let index = from.u32()?;
    out(from.u32()?);
    let function = match what {
        What::Split(split) => split.functions.get_index(index)?,
        What::Call | What::Read(_) => Value::UNDEFINED,
    };
    if !function.is_function() {
        return Ok(Err(Report::of_node("BadState", "that was no split, or it has no such branch")));
    }
    engine().waiting.borrow_mut().clear();
    engine().seed.set(random::of_branch(engine().seed.get(), call, index));
    let result = function.call(&Value::UNDEFINED, &[]).and_then(as_promise)?;
    engine().result.replace(Some(result));
    Ok(Ok(()))
}

/// Takes an event in by `begin`, which also says how large the outbox may get; then runs and reports.
fn turn(event: &[u8], begin: impl FnOnce(&mut Decoder<'_>, &mut dyn FnMut(u32)) -> Result<Result<(), Report>, Bad>) {
    let mut set_max = |bytes_max: u32| {
        with_outbox(|out| out.begin(bytes_max as usize));
    };
    set_max(0);
    let begun = begin(&mut Decoder::new(event), &mut set_max);
    let thrown = match begun {
        Ok(Ok(())) => None,
        Ok(Err(report)) => return fail(&report),
        Err(Bad::Malformed) => {
            return fail(&Report::of_node("BadEvent", "the host's event is not what the guest ABI says"));
        }
        Err(Bad::Threw(Pending)) => stopped_or(js::take_exception()),
    };
    let thrown = thrown.or_else(run_jobs);
    report(thrown);
}

/// Runs what can run. The answer is what was thrown where no promise could take it.
pub(crate) fn run_jobs() -> Option<Value> {
    loop {
        if limits::broken().is_some() {
            return None;
        }
        match js::run_job() {
            None => return None,
            Some(Ok(())) => {}
            Some(Err(Pending)) => {
                if let Some(thrown) = stopped_or(js::take_exception()) {
                    return Some(thrown);
                }
            }
        }
    }
}

/// Notes where a broken limit stopped the program; hands on what is not about a limit.
pub(crate) fn stopped_or(thrown: Value) -> Option<Value> {
    if limits::broken().is_some() {
        limits::set_broken_at(position::of_error(&thrown));
        return None;
    }
    Some(thrown)
}

/// Ends the function with what the engine has to say.
pub(crate) fn fail(report: &Report) {
    set_phase(Phase::Over);
    with_outbox(|out| {
        out.make_room();
        // Short, after room was made for it.
        let _ = out.event(|e| exception::write_report(e, report));
    });
}

/// Ends the turn: the end of the function, if it has come to one.
fn report(thrown: Option<Value>) {
    let result = engine().result.borrow().clone();
    let state = match thrown {
        Some(thrown) => PromiseState::Rejected(thrown),
        None => result.map_or(PromiseState::Waits, |r| r.promise_state()),
    };
    let step = match &state {
        PromiseState::Waits => Ok(()),
        _ if limits::broken().is_some() => Ok(()),
        PromiseState::Fulfilled(value) => write_done(value),
        PromiseState::Rejected(error) if is_stack_overflow(error) => {
            limits::set_broken(Limit::StackBytes);
            Ok(())
        }
        PromiseState::Rejected(error) => write_threw(error),
    };
    if let Err(full) = step {
        limits::set_broken(limit_of(full));
    }
    if let Some(limit) = limits::broken() {
        if let PromiseState::Rejected(error) = &state {
            limits::set_broken_at(position::of_error(error));
        }
        return write_limit(limit);
    }
    if !matches!(state, PromiseState::Waits) {
        set_phase(Phase::Over);
    }
}

/// The limit that a full outbox breaks.
pub(crate) fn limit_of(full: Full) -> Limit {
    match full {
        Full::Bound => Limit::OutputBytes,
        Full::Memory => Limit::MemoryBytes,
    }
}

fn is_stack_overflow(error: &Value) -> bool {
    error.is_error() && exception::plain_text(error) == "RangeError: Maximum call stack size exceeded"
}

fn write_done(value: &Value) -> Result<(), Full> {
    let written = with_outbox(|out| {
        let mark = out.mark();
        let head = minicbor::Encoder::new(&mut *out).array(2).and_then(|e| e.u8(1)).map(|_| ());
        let written = head.map_err(Trouble::from).and_then(|()| encode::value(out, value));
        match &written {
            Ok(()) => out.count_event(),
            Err(_) => out.back_to(mark),
        }
        written
    });
    match written {
        None | Some(Ok(())) => Ok(()),
        Some(Err(Trouble::Full(full))) => Err(full),
        Some(Err(Trouble::Threw(Pending))) => match stopped_or(js::take_exception()) {
            Some(thrown) => write_threw(&thrown),
            None => Ok(()),
        },
        Some(Err(Trouble::Unfit(path, why))) => {
            let message = encode::unfit_message("the result", &path, &why);
            match js::error(js::ErrorClass::TypeError, &message) {
                Ok(error) => write_threw(&error),
                Err(Pending) => {
                    drop(js::take_exception());
                    Err(Full::Memory)
                }
            }
        }
    }
}

fn write_threw(error: &Value) -> Result<(), Full> {
    let written = with_outbox(|out| {
        let mark = out.mark();
        let written = exception::write_thrown(out, error);
        if written.is_err() {
            out.back_to(mark);
        }
        written
    });
    match written {
        Some(Err(Trouble::Full(full))) => Err(full),
        _ => Ok(()),
    }
}

fn write_limit(limit: Limit) {
    set_phase(Phase::Over);
    let at = limits::broken_at();
    with_outbox(|out| {
        out.make_room();
        // Short, after room was made for it.
        let _ = out
            .event(|e| e.array(5)?.u8(5)?.str(limit.name())?.str(limit.message())?.u32(at.line)?.u32(at.column)?.ok());
    });
}
