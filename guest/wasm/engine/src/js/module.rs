//! Source to bytecode to a module that has run.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use rquickjs_sys as q;

use super::bytes::raw_bytes;
use super::runtime::{collect, replace_context, rt};
use super::{Js, Key, Pending, Value, context, take_exception};
use crate::native;

/// A module's bytecode, without its source text.
pub(crate) struct Bytecode(Vec<u8>);

/// Compiles a module, in a context that is thrown away with the source text and everything else that only the
/// compiler needs. An error is told in plain text, since it belongs to that context: (message, stack).
pub(crate) fn compile(name: &CStr, source: &CStr) -> Result<Bytecode, CompileError> {
    // SAFETY: the runtime is there for good.
    let scratch = unsafe { q::JS_NewContextRaw(rt()) };
    if scratch.is_null() {
        return Err(CompileError::default());
    }
    let main = replace_context(scratch);
    let result = compile_here(name, source);
    replace_context(main);
    // SAFETY: nothing of that context is held any more: the bytecode is a copy, and so is the error's text.
    unsafe { q::JS_FreeContext(scratch) };
    // The context and its module hold each other.
    collect();
    result
}

fn compile_here(name: &CStr, source: &CStr) -> Result<Bytecode, CompileError> {
    let flags = (q::JS_EVAL_TYPE_MODULE | q::JS_EVAL_FLAG_COMPILE_ONLY) as c_int;
    // SAFETY: the context, which is new; the texts end in a zero, and the engine copies what it keeps of them.
    let module = unsafe {
        q::JS_AddIntrinsicEval(context());
        q::JS_AddIntrinsicRegExpCompiler(context());
        native::add_module(context());
        q::JS_Eval(context(), source.as_ptr(), source.count_bytes() as u32, name.as_ptr(), flags)
    };
    // SAFETY: looks at the tag alone.
    if unsafe { q::JS_IsException(module) } {
        return Err(CompileError::take());
    }
    let mut len = 0;
    let flags = (q::JS_WRITE_OBJ_BYTECODE | q::JS_WRITE_OBJ_STRIP_SOURCE) as c_int;
    // SAFETY: the context, which owns the module; room; the `len` bytes that come back are ours to free, and used no more then.
    unsafe {
        let bytes = q::JS_WriteObject(context(), &mut len, module, flags);
        let copy = Bytecode(raw_bytes(bytes, 0, len).to_vec());
        q::js_free(context(), bytes.cast());
        Ok(copy)
    }
}

/// Why a module does not compile.
#[derive(Default)]
pub(crate) struct CompileError {
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) stack: String,
}

impl CompileError {
    fn take() -> Self {
        let error = take_exception();
        let text = |key: &str| {
            let Ok(key) = Key::new(key) else { return Default::default() };
            let Ok(value) = error.get(key.name()) else {
                drop(take_exception());
                return Default::default();
            };
            match value.is_string().then(|| value.to_text()) {
                Some(Ok(text)) => text.get().into_owned(),
                _ => Default::default(),
            }
        };
        CompileError { name: text("name"), message: text("message"), stack: text("stack") }
    }
}

/// A module that has been evaluated as far as it goes by itself.
pub(crate) struct Module {
    /// What it exports.
    pub(crate) namespace: Value,
    /// Settled when the module's top level has run.
    pub(crate) evaluation: Value,
}

/// Runs a module's top level. Jobs that it leaves are the caller's to run.
pub(crate) fn evaluate(code: &Bytecode) -> Js<Module> {
    let flags = q::JS_READ_OBJ_BYTECODE as c_int;
    // SAFETY: the context; the bytes are the engine's own, from `compile`: it trusts bytecode.
    let module = unsafe { q::JS_ReadObject(context(), code.0.as_ptr(), code.0.len() as u32, flags) };
    // SAFETY: the context, which owns the module once it is read, and for good.
    unsafe {
        if q::JS_IsException(module) || q::JS_ResolveModule(context(), module) < 0 {
            return Err(Pending);
        }
        let definition = q::JS_VALUE_GET_PTR(module).cast();
        let evaluation = Value::checked(q::JS_EvalFunction(context(), module))?;
        let namespace = Value::checked(q::JS_GetModuleNamespace(context(), definition))?;
        Ok(Module { namespace, evaluation })
    }
}
