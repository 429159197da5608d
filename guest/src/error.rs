//! Errors, worded for whoever has to change something.

use catena_wire::{Exception, Fault, Value, names};
use minicbor::Encoder;
use std::fmt::Display;

use crate::{
    admission, continuation,
    host::Overtime,
    limits::{Limits, STACK_BYTES_MAX},
};

/// Name of the exception of a guest that executed a WebAssembly trap: an internal fault of a compiled function.
pub const GUEST_TRAPPED: &str = "GuestTrapped";
/// Name of the exception of a guest that does not keep to the guest ABI.
pub const GUEST_ABI: &str = "GuestAbiError";
/// Name of the exception for a call on a session that has ended.
pub const SESSION_OVER: &str = "SessionOver";

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// wasmtime would not start with this configuration on this machine.
    #[error(
        "the WebAssembly runtime did not start: {0}; check instances_max and the machine's limit on virtual memory"
    )]
    Runtime(String),
    /// The directory for compiled modules cannot be used.
    #[error("the cache directory for compiled modules cannot be used: {0}")]
    CacheDir(String),
    /// The system refused the thread that counts epochs.
    #[error("the thread that counts time did not start: {0}")]
    Ticker(std::io::Error),
    /// The requested way of finding changed pages does not work on this machine.
    #[error("this machine cannot find changed pages by {0:?}; leave page_finder unset")]
    PageFinder(crate::PageFinder),
    /// The JavaScript engine inside this build is not a guest.
    #[error("the JavaScript engine of this build is unusable: {0}")]
    Engine(String),
}

/// What stopped a guest's step.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The limit of this name was exceeded.
    Limit {
        limit: String,
        message: Option<String>,
        line: u32,
        column: u32,
    },
    Trap {
        what: String,
        /// What the guest itself reported about it.
        last_words: Option<String>,
    },
    Abi(String),
    /// The node has no more memory for guests.
    Full {
        limit: String,
        max: u64,
    },
}

impl Stop {
    pub(crate) fn limit(limit: &str) -> Self {
        Self::Limit { limit: limit.to_owned(), message: None, line: 0, column: 0 }
    }

    pub(crate) fn abi(fault: impl Display) -> Self {
        Self::Abi(fault.to_string())
    }

    /// Why a call into the guest failed.
    pub(crate) fn of_call(error: &wasmtime::Error) -> Self {
        if error.downcast_ref::<Overtime>().is_some() {
            return Self::limit("step_wall_ms_max");
        }
        match error.downcast_ref::<wasmtime::Trap>() {
            Some(wasmtime::Trap::StackOverflow) => Self::limit("stack_bytes_max"),
            Some(trap) => Self::Trap { what: describe(*trap, error), last_words: None },
            None => Self::Trap { what: format!("{error:#}"), last_words: None },
        }
    }

    pub(crate) fn into_exception(self, limits: &Limits) -> Exception {
        match self {
            Self::Limit { limit, message, line, column } => {
                limit_exceeded(&limit, message, limits).at_line(line, column)
            }
            Self::Trap { what, last_words } => {
                let message = match last_words {
                    Some(words) => format!("the function's WebAssembly trapped: {words} ({what})"),
                    None => format!("the function's WebAssembly trapped: {what}"),
                };
                Exception::new(GUEST_TRAPPED, Fault::Guest, message)
            }
            Self::Full { limit, max } => overloaded(&limit, max),
            Self::Abi(what) => {
                Exception::new(GUEST_ABI, Fault::Guest, format!("the function broke the guest ABI: {what}"))
            }
        }
    }
}

/// The trap, and the guest's call stack, innermost first.
fn describe(trap: wasmtime::Trap, error: &wasmtime::Error) -> String {
    const FRAMES_MAX: usize = 8;
    let frames = error
        .downcast_ref::<wasmtime::WasmBacktrace>()
        .map(|backtrace| {
            let frames = backtrace.frames().iter().take(FRAMES_MAX);
            let names = frames.map(|frame| {
                frame.func_name().map_or_else(|| format!("function {}", frame.func_index()), ToOwned::to_owned)
            });
            names.collect::<Vec<_>>().join(" < ")
        })
        .filter(|frames| !frames.is_empty());
    match frames {
        Some(frames) => format!("{trap}, in {frames}"),
        None => trap.to_string(),
    }
}

/// `LimitExceeded`, with the limit's name, size and unit for programs.
pub(crate) fn limit_exceeded(limit: &str, message: Option<String>, limits: &Limits) -> Exception {
    let known = [
        ("memory_bytes_max", limits.memory_bytes_max, "bytes"),
        ("step_wall_ms_max", limits.step_wall_ms_max.into(), "ms"),
        ("output_bytes_max", limits.output_bytes_max.into(), "bytes"),
        ("events_max", limits.events_max.into(), "events"),
        ("continuation_bytes_max", limits.continuation_bytes_max.into(), "bytes"),
        ("stack_bytes_max", STACK_BYTES_MAX as u64, "bytes"),
    ];
    let found = known.into_iter().find(|(name, ..)| *name == limit);
    let said = message.filter(|message| !message.is_empty()).map(|message| format!(": {message}")).unwrap_or_default();
    let message = match found {
        Some((_, max, unit)) => format!("the function broke {limit} ({max} {unit}){said}"),
        None => format!("the function broke {limit}{said}"),
    };
    let exception = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message);
    exception.with_params(limit_params(limit, found.map(|(_, max, unit)| (max, unit))))
}

fn limit_params(limit: &str, size: Option<(u64, &str)>) -> Value {
    let mut e = Encoder::new(Vec::new());
    // Writing to memory cannot fail.
    let _: Result<(), minicbor::encode::Error<std::convert::Infallible>> = (|| {
        e.map(if size.is_some() { 3 } else { 1 })?;
        e.str("limit")?.str(limit)?;
        if let Some((max, unit)) = size {
            e.str("limit_max")?.u64(max)?.str("unit")?.str(unit)?;
        }
        Ok(())
    })();
    Value::from_cbor(e.into_writer().into()).unwrap_or(Value::null())
}

pub(crate) fn bad_code(fault: Fault, what: impl Display) -> Exception {
    Exception::new(names::BAD_CODE, fault, what.to_string())
}

pub(crate) fn refused(name: &str, refusal: &admission::Refusal) -> Exception {
    bad_code(Fault::Guest, format!("the module {name} is not a guest that can travel: {refusal}"))
}

pub(crate) fn bad_continuation(refusal: continuation::Refusal) -> Exception {
    let message = format!("the continuation is refused: {refusal}");
    Exception::new(names::BAD_CONTINUATION, Fault::Network, message)
}

pub(crate) fn overloaded(limit: &str, max: u64) -> Exception {
    Exception::new(
        names::OVERLOADED,
        Fault::Node,
        format!("this node has as much work as its {limit} ({max}) allows; try again later"),
    )
}

pub(crate) fn session_over() -> Exception {
    Exception::new(
        SESSION_OVER,
        Fault::Node,
        "this session has ended, or its last step was abandoned; begin or resume another",
    )
}

/// The exception for an error that only a broken machine or build could cause.
pub(crate) fn node_fault(what: impl Display) -> Exception {
    Exception::new(names::BAD_CODE, Fault::Node, what.to_string())
}
