//! What would otherwise be looked up in every turn.

use core::cell::RefCell;

use rquickjs_sys as q;

use super::{Js, Name, Single, Value, context};
use crate::native;

macro_rules! names {
    ($($field:ident = $text:literal),* $(,)?) => {
        /// The names that the engine itself uses.
        pub(crate) struct Names { $(pub(crate) $field: Name),* }
        impl Names {
            fn new() -> Self {
                Names { $($field: Name::new($text)),* }
            }
        }
    };
}

names! {
    at = "at",
    branch = "branch",
    column_number = "columnNumber",
    constructor = "constructor",
    default = "default",
    failed = "failed",
    fault = "fault",
    host_stack = "hostStack",
    line_number = "lineNumber",
    message = "message",
    missing = "missing",
    name = "name",
    node = "node",
    over = "over",
    params = "params",
    parts = "parts",
    path = "path",
    reason = "reason",
    replies = "replies",
    set = "set",
    settled = "settled",
    add = "add",
    stack = "stack",
    status = "status",
    step = "step",
    target = "target",
    to_string = "toString",
    get_time = "getTime",
    unknown = "unknown",
    value = "value",
    value_of = "valueOf",
    why = "why",
}

/// Kept for the module's whole life.
pub(super) struct Handles {
    pub(super) error: Value,
    pub(super) type_error: Value,
    pub(super) big_int: Value,
    pub(super) map: Value,
    pub(super) set: Value,
    pub(super) array_from: Value,
    pub(super) plain_class: u32,
    pub(super) error_class: u32,
    names: Names,
}

static HANDLES: Single<RefCell<Option<Handles>>> = Single(RefCell::new(None));

pub(super) fn with_handles<R>(read: impl FnOnce(&Handles) -> R) -> R {
    match HANDLES.0.borrow().as_ref() {
        Some(handles) => read(handles),
        None => core::arch::wasm32::unreachable(),
    }
}

/// Looks up what [`with_handles`] keeps. Called once, after [`init`](super::init).
pub(crate) fn intern() -> Js<()> {
    // SAFETY: the context; the reference that comes back is ours.
    let global = Value(unsafe { q::JS_GetGlobalObject(context()) });
    let get = |text: &str| global.get(Name::new(text));
    let error = get("Error")?;
    let handles = Handles {
        plain_class: class_of(&Value::object()?),
        error_class: class_of(&error.call_as_constructor(&[])?),
        error,
        type_error: get("TypeError")?,
        big_int: get("BigInt")?,
        map: get("Map")?,
        set: get("Set")?,
        array_from: get("Array")?.get(Name::new("from"))?,
        names: Names::new(),
    };
    let math = get("Math")?;
    math.define(Name::new("random"), native::random_function()?)?;
    HANDLES.0.replace(Some(handles));
    Ok(())
}

fn class_of(object: &Value) -> u32 {
    // SAFETY: alive.
    unsafe { q::JS_GetClassID(object.0) }
}

/// One of the names that the engine itself uses.
pub(crate) fn name(pick: impl FnOnce(&Names) -> &Name) -> Name {
    with_handles(|h| *pick(&h.names))
}
