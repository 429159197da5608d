//! What QuickJS calls: the functions of the module `"catena"`, `Math.random`, the clock, the poll for limits,
//! and the refusal of every other import.
#![allow(unsafe_code)]

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use rquickjs_sys as q;

use crate::js::{Js, Pending, Single, Value};
use crate::{api, engine, layers, limits, replies, split};

// SAFETY: the host gives a function of this type, or refuses the module.
#[link(wasm_import_module = "catena")]
unsafe extern "C" {
    /// Non-zero: a limit of this step is broken.
    fn interrupted() -> i32;
}

/// The microseconds since the Unix epoch, for `Date` and `performance`: the chain's start.
#[unsafe(no_mangle)]
extern "C" fn __rquickjs_host_now_us() -> f64 {
    engine::now_ms() * 1000.0
}

/// The engine asks now and then whether it must stop.
pub(crate) unsafe extern "C" fn on_poll(_: *mut q::JSRuntime, _: *mut c_void) -> c_int {
    // SAFETY: the import takes nothing and changes nothing.
    c_int::from(limits::must_stop(|| unsafe { interrupted() } != 0))
}

/// A name to import by becomes the name of a module, or is refused.
pub(crate) unsafe extern "C" fn on_import(
    ctx: *mut q::JSContext,
    _base: *const c_char,
    name: *const c_char,
    _: *mut c_void,
) -> *mut c_char {
    // SAFETY: the engine hands over its context and a text that ends in a zero, both alive during the call; the copy is its own.
    unsafe {
        let name = CStr::from_ptr(name);
        if name == MODULE_NAME {
            return q::js_strdup(ctx, name.as_ptr());
        }
        LAST_REFUSED.0.replace(name.to_bytes().to_vec());
        q::JS_ThrowSyntaxError(
            ctx,
            c"cannot import \"%s\": a function may import only \"catena\"; bundle other modules into its source"
                .as_ptr(),
            name.as_ptr(),
        );
        ptr::null_mut()
    }
}

static LAST_REFUSED: Single<RefCell<alloc::vec::Vec<u8>>> = Single(RefCell::new(alloc::vec::Vec::new()));

/// The import that was refused last; forgotten afterwards.
pub(crate) fn take_refused_import() -> alloc::vec::Vec<u8> {
    LAST_REFUSED.0.take()
}

const MODULE_NAME: &CStr = c"catena";

type Native = unsafe extern "C" fn(*mut q::JSContext, q::JSValue, c_int, *mut q::JSValue) -> q::JSValue;

const EXPORTS: [(&CStr, Native, c_int); 4] =
    [(c"call", js_call, 2), (c"emit", js_emit, 1), (c"log", js_log, 1), (c"split", js_split, 2)];

/// Makes `import ... from "catena"` possible in a context.
///
/// # Safety
/// `ctx` must be alive.
pub(crate) unsafe fn add_module(ctx: *mut q::JSContext) {
    // SAFETY: the caller's promise; the engine copies the names, and the functions live as long as the module.
    unsafe {
        let module = q::JS_NewCModule(ctx, MODULE_NAME.as_ptr(), Some(fill_module));
        for (name, _, _) in EXPORTS {
            q::JS_AddModuleExport(ctx, module, name.as_ptr());
        }
        for name in layers::NAMES {
            q::JS_AddModuleExport(ctx, module, name.as_ptr());
        }
    }
}

unsafe extern "C" fn fill_module(ctx: *mut q::JSContext, module: *mut q::JSModuleDef) -> c_int {
    for (name, function, length) in EXPORTS {
        // SAFETY: the engine hands over its context and the module that `add_module` made, and takes the function over.
        unsafe {
            let function = new_function(ctx, function, name, length);
            if q::JS_SetModuleExport(ctx, module, name.as_ptr(), function) < 0 {
                return -1;
            }
        }
    }
    for (number, name) in layers::NAMES.iter().enumerate() {
        // SAFETY: as above; the layer is a reference of its own.
        if unsafe { q::JS_SetModuleExport(ctx, module, name.as_ptr(), layers::layer(number).into_raw()) } < 0 {
            return -1;
        }
    }
    0
}

/// # Safety
/// `ctx` must be alive.
unsafe fn new_function(ctx: *mut q::JSContext, f: Native, name: &CStr, length: c_int) -> q::JSValue {
    // SAFETY: the caller's promise; the engine copies the name.
    unsafe { q::JS_NewCFunction2(ctx, Some(f), name.as_ptr(), length, q::JSCFunctionEnum_JS_CFUNC_generic, 0) }
}

/// The `call` of a chain.
pub(crate) fn call_function() -> Js<Value> {
    function_value(js_call, c"call", 2)
}

/// The `Math.random` of a chain.
pub(crate) fn random_function() -> Js<Value> {
    function_value(js_random, c"random", 0)
}

/// What asks for many replies, reads them, and leaves them: for the layers alone.
pub(crate) fn replies_functions() -> Js<[Value; 3]> {
    Ok([
        function_value(js_ask, c"replies", 2)?,
        function_value(js_read, c"read", 1)?,
        function_value(js_leave, c"leave", 1)?,
    ])
}

/// What makes a blob of its parts: for the layers alone.
pub(crate) fn blob_function() -> Js<Value> {
    function_value(js_blob, c"blob", 1)
}

fn function_value(function: Native, name: &CStr, length: c_int) -> Js<Value> {
    // SAFETY: the one context is alive for good.
    let raw = unsafe { new_function(crate::js::context(), function, name, length) };
    // SAFETY: looks at the tag alone; then, the value is new and nobody else's.
    unsafe { if q::JS_IsException(raw) { Err(Pending) } else { Ok(Value::from_raw(raw)) } }
}

fn answer(result: Js<Value>) -> q::JSValue {
    match result {
        Ok(value) => value.into_raw(),
        Err(Pending) => q::JS_EXCEPTION,
    }
}

macro_rules! natives {
    ($($name:ident => $path:path),* $(,)?) => {$(
        unsafe extern "C" fn $name(_: *mut q::JSContext, _: q::JSValue, argc: c_int, argv: *mut q::JSValue) -> q::JSValue {
            // SAFETY: the engine hands over `argc` values that live during the call.
            answer($path(unsafe { Value::borrow_args(argv, argc) }))
        }
    )*};
}

natives! {
    js_call => api::call,
    js_emit => api::emit,
    js_log => api::log,
    js_split => split::split,
    js_ask => replies::ask,
    js_read => replies::read,
    js_leave => replies::leave,
    js_random => api::random,
    js_blob => api::blob,
}
