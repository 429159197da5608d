//! What any value can be asked.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::slice;

use rquickjs_sys as q;

use super::handles::with_handles;
use super::{Js, Name, Pending, Text, context};

/// A JavaScript value, owned.
#[repr(transparent)]
pub(crate) struct Value(pub(super) q::JSValue);

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: the context; the reference that is given up is ours, and this is its end.
        unsafe {
            if q::JS_VALUE_HAS_REF_COUNT(self.0) {
                q::JS_FreeValue(context(), self.0);
            }
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        // SAFETY: the context; alive.
        Value(unsafe { q::JS_DupValue(context(), self.0) })
    }
}

impl Value {
    pub(crate) const UNDEFINED: Value = Value(q::JS_UNDEFINED);
    pub(crate) const NULL: Value = Value(q::JS_NULL);

    pub(crate) fn into_raw(self) -> q::JSValue {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// `raw` must be owned by the caller and not used by it again.
    pub(crate) unsafe fn from_raw(raw: q::JSValue) -> Self {
        Value(raw)
    }

    /// # Safety
    /// `argv` must hold `argc` values that live as long as the answer is used.
    pub(crate) unsafe fn borrow_args<'a>(argv: *const q::JSValue, argc: c_int) -> &'a [Value] {
        if argc <= 0 {
            return &[];
        }
        // SAFETY: the caller's promise; a `Value` is laid out as the engine's own.
        unsafe { slice::from_raw_parts(argv.cast(), argc as usize) }
    }

    /// What the engine answered: a value that is now ours, or the mark of an exception.
    pub(super) fn checked(raw: q::JSValue) -> Js<Self> {
        // SAFETY: looks at the tag alone.
        if unsafe { q::JS_IsException(raw) } { Err(Pending) } else { Ok(Value(raw)) }
    }

    /// Two values that are the same object have the same identity while both live.
    pub(crate) fn identity(&self) -> usize {
        // SAFETY: looks at the bits alone; nothing is read through them.
        unsafe { q::JS_VALUE_GET_PTR(self.0) as usize }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        // SAFETY: looks at the tag alone.
        unsafe { q::JS_IsUndefined(self.0) }
    }
    pub(crate) fn is_object(&self) -> bool {
        // SAFETY: looks at the tag alone.
        unsafe { q::JS_IsObject(self.0) }
    }
    pub(crate) fn is_true(&self) -> bool {
        matches!(self.kind(), crate::js::Kind::Bool(true))
    }

    pub(crate) fn is_string(&self) -> bool {
        // SAFETY: looks at the tag alone.
        unsafe { q::JS_IsString(self.0) }
    }
    pub(crate) fn is_error(&self) -> bool {
        // SAFETY: alive.
        unsafe { q::JS_IsError(self.0) }
    }
    pub(crate) fn is_function(&self) -> bool {
        // SAFETY: the context; alive.
        unsafe { q::JS_IsFunction(context(), self.0) }
    }
    pub(crate) fn is_array(&self) -> bool {
        // SAFETY: alive.
        unsafe { q::JS_IsArray(self.0) }
    }
    pub(crate) fn is_promise(&self) -> bool {
        // SAFETY: alive.
        unsafe { q::JS_IsPromise(self.0) }
    }
    pub(crate) fn is_uncatchable(&self) -> bool {
        // SAFETY: alive.
        unsafe { q::JS_IsUncatchableError(self.0) }
    }

    pub(crate) fn get(&self, name: Name) -> Js<Value> {
        // SAFETY: the context; alive.
        Value::checked(unsafe { q::JS_GetProperty(context(), self.0, name.0) })
    }
    pub(crate) fn get_index(&self, i: u32) -> Js<Value> {
        // SAFETY: the context; alive.
        Value::checked(unsafe { q::JS_GetPropertyUint32(context(), self.0, i) })
    }
    pub(crate) fn len(&self) -> Js<i64> {
        let mut len = 0;
        // SAFETY: the context; alive; room.
        let got = unsafe { q::JS_GetLength(context(), self.0, &mut len) };
        if got < 0 { Err(Pending) } else { Ok(len) }
    }
    /// Defines an own property as an object literal would.
    pub(crate) fn put(&self, name: Name, value: Value) -> Js<()> {
        self.define_as(name, value, q::JS_PROP_C_W_E)
    }
    /// Defines an own property that is not enumerable.
    pub(crate) fn define(&self, name: Name, value: Value) -> Js<()> {
        self.define_as(name, value, q::JS_PROP_CONFIGURABLE | q::JS_PROP_WRITABLE)
    }
    /// Defines an own property that is not enumerable, and stays as it is.
    pub(super) fn fix(&self, name: Name, value: Value) -> Js<()> {
        self.define_as(name, value, 0)
    }
    fn define_as(&self, name: Name, value: Value, flags: u32) -> Js<()> {
        // SAFETY: the context; alive; the engine takes `value` over, whatever comes of it.
        let done = unsafe { q::JS_DefinePropertyValue(context(), self.0, name.0, value.into_raw(), flags as c_int) };
        if done < 0 { Err(Pending) } else { Ok(()) }
    }

    pub(crate) fn call(&self, this: &Value, args: &[Value]) -> Js<Value> {
        let argv = args.as_ptr() as *mut q::JSValue;
        // SAFETY: the context; all are alive, and the engine does not write to the arguments of a caller.
        Value::checked(unsafe { q::JS_Call(context(), self.0, this.0, args.len() as c_int, argv) })
    }
    pub(crate) fn call_method(&self, name: Name, args: &[Value]) -> Js<Value> {
        self.get(name)?.call(self, args)
    }
    pub(crate) fn call_as_constructor(&self, args: &[Value]) -> Js<Value> {
        let argv = args.as_ptr() as *mut q::JSValue;
        // SAFETY: as in `call`.
        Value::checked(unsafe { q::JS_CallConstructor(context(), self.0, args.len() as c_int, argv) })
    }

    /// `String(value)`.
    pub(crate) fn to_text(&self) -> Js<Text> {
        Text::of(self)
    }
    /// The value of `JSON.stringify(value)`; undefined where there is none.
    pub(crate) fn to_json(&self) -> Js<Value> {
        // SAFETY: the context; alive.
        Value::checked(unsafe { q::JS_JSONStringify(context(), self.0, q::JS_UNDEFINED, q::JS_UNDEFINED) })
    }
    pub(crate) fn to_number(&self) -> Js<f64> {
        let mut n = 0.0;
        // SAFETY: the context; alive; room.
        let got = unsafe { q::JS_ToFloat64(context(), &mut n, self.0) };
        if got < 0 { Err(Pending) } else { Ok(n) }
    }
    /// `Array.from(value)`: what a Map or a Set holds.
    pub(crate) fn to_array(&self) -> Js<Value> {
        with_handles(|h| h.array_from.clone()).call(&Value::UNDEFINED, slice::from_ref(self))
    }
}
