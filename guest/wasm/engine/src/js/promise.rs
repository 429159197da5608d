//! Promises and what settles them.

use rquickjs_sys as q;

use super::{Js, Value, context};

/// A promise with the two functions that settle it.
pub(crate) struct Deferred {
    pub(crate) promise: Value,
    pub(crate) resolve: Value,
    pub(crate) reject: Value,
}

impl Deferred {
    pub(crate) fn new() -> Js<Self> {
        let mut settle = [q::JS_UNDEFINED; 2];
        // SAFETY: the context; room, for the two that the engine writes.
        let promise = Value::checked(unsafe { q::JS_NewPromiseCapability(context(), settle.as_mut_ptr()) })?;
        let [resolve, reject] = settle.map(Value);
        Ok(Deferred { promise, resolve, reject })
    }
}

/// How far a promise has come.
pub(crate) enum PromiseState {
    Waits,
    Fulfilled(Value),
    Rejected(Value),
}

impl Value {
    pub(crate) fn promise_state(&self) -> PromiseState {
        // SAFETY: the context; alive; the reference that comes back is ours.
        let result = || Value(unsafe { q::JS_PromiseResult(context(), self.0) });
        // SAFETY: the context; alive.
        match unsafe { q::JS_PromiseState(context(), self.0) } {
            q::JSPromiseStateEnum_JS_PROMISE_FULFILLED => PromiseState::Fulfilled(result()),
            q::JSPromiseStateEnum_JS_PROMISE_REJECTED => PromiseState::Rejected(result()),
            _ => PromiseState::Waits,
        }
    }
}
