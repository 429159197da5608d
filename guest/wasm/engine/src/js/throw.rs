//! Exceptions, raised and fetched.

use rquickjs_sys as q;

use super::handles::with_handles;
use super::{Js, Pending, Value, context};

/// The exception that the engine holds; it holds none afterwards.
pub(crate) fn take_exception() -> Value {
    // SAFETY: the context; the reference that comes back is ours.
    Value(unsafe { q::JS_GetException(context()) })
}

/// Throws `error` from the native function that runs.
pub(crate) fn throw(error: Value) -> Pending {
    // SAFETY: the context; the engine takes `error` over.
    unsafe { q::JS_Throw(context(), error.into_raw()) };
    Pending
}

/// An error of the class that the engine's own constructor of that name makes, with a trace of where we are.
pub(crate) fn error(class: ErrorClass, message: &str) -> Js<Value> {
    let message = Value::string(message)?;
    class.constructor().call_as_constructor(&[message])
}

/// Throws a new error.
pub(crate) fn throw_error(class: ErrorClass, message: &str) -> Pending {
    match error(class, message) {
        Ok(error) => throw(error),
        Err(pending) => pending,
    }
}

/// Throws an error that the program cannot catch.
pub(crate) fn throw_uncatchable(message: &str) -> Pending {
    match error(ErrorClass::Error, message) {
        Ok(error) => {
            // SAFETY: the context; alive.
            unsafe { q::JS_SetUncatchableError(context(), error.0) };
            throw(error)
        }
        Err(pending) => pending,
    }
}

/// A new `Error` without a trace: the engine adds the trace where the error is first thrown, such as at an `await`.
pub(crate) fn error_without_trace() -> Js<Value> {
    let class = with_handles(|h| h.error_class);
    // SAFETY: the context.
    Value::checked(unsafe { q::JS_NewObjectClass(context(), class) })
}

/// A new `Error` with a trace of where we are, made without running anything of the program's: it works while the program is
/// stopped in the middle of whatever it does.
pub(crate) fn error_here() -> Js<Value> {
    // SAFETY: the context.
    Value::checked(unsafe { q::JS_NewError(context()) })
}

/// The engine's error constructors that are used here.
#[derive(Clone, Copy)]
pub(crate) enum ErrorClass {
    Error,
    TypeError,
}

impl ErrorClass {
    fn constructor(self) -> Value {
        with_handles(|h| match self {
            ErrorClass::Error => h.error.clone(),
            ErrorClass::TypeError => h.type_error.clone(),
        })
    }
}
