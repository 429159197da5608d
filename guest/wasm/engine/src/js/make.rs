//! New values.

use alloc::vec::Vec;
use core::ffi::c_int;
use core::mem::ManuallyDrop;

use rquickjs_sys as q;

use super::handles::with_handles;
use super::{Js, Value, context};

impl Value {
    pub(crate) fn bool(b: bool) -> Self {
        Value(if b { q::JS_TRUE } else { q::JS_FALSE })
    }
    pub(crate) fn number(n: f64) -> Self {
        Value(q::JS_NewFloat64(n))
    }
    pub(crate) fn int(n: i32) -> Self {
        Value(q::JS_MKVAL(q::JS_TAG_INT, n))
    }
    pub(crate) fn big_int(n: i64) -> Js<Self> {
        // SAFETY: the context.
        Value::checked(unsafe { q::JS_NewBigInt64(context(), n) })
    }
    pub(crate) fn big_uint(n: u64) -> Js<Self> {
        // SAFETY: the context.
        Value::checked(unsafe { q::JS_NewBigUint64(context(), n) })
    }
    /// From a literal such as `0xff`.
    pub(crate) fn big_int_of(literal: &str) -> Js<Self> {
        let big_int = with_handles(|h| h.big_int.clone());
        big_int.call(&Value::UNDEFINED, &[Value::string(literal)?])
    }
    pub(crate) fn string(text: &str) -> Js<Self> {
        // SAFETY: the context; the engine copies `len` bytes of `text`.
        Value::checked(unsafe { q::JS_NewStringLen(context(), text.as_ptr().cast(), text.len() as u32) })
    }
    pub(crate) fn object() -> Js<Self> {
        // SAFETY: the context.
        Value::checked(unsafe { q::JS_NewObject(context()) })
    }
    pub(crate) fn array(items: Vec<Value>) -> Js<Self> {
        let items = ManuallyDrop::new(items);
        // SAFETY: the context; the engine takes the items over, also when it fails, and they are not dropped here.
        let array = unsafe { q::JS_NewArrayFrom(context(), items.len() as c_int, items.as_ptr().cast()) };
        // SAFETY: the storage is that of `items`, which is not used again; what was in it is gone, so its length is zero.
        let storage = unsafe { Vec::from_raw_parts(items.as_ptr() as *mut q::JSValue, 0, items.capacity()) };
        drop(storage);
        Value::checked(array)
    }
    pub(crate) fn bytes(bytes: &[u8]) -> Js<Self> {
        // SAFETY: the context; the engine copies `len` bytes.
        Value::checked(unsafe { q::JS_NewUint8ArrayCopy(context(), bytes.as_ptr(), bytes.len() as u32) })
    }
    /// A typed array over a copy of `bytes`; `kind` as in [`Shape::Typed`](super::Shape::Typed).
    pub(crate) fn typed_array(kind: u32, bytes: &[u8]) -> Js<Self> {
        // SAFETY: the context; the engine copies `len` bytes.
        let copied = unsafe { q::JS_NewArrayBufferCopy(context(), bytes.as_ptr(), bytes.len() as u32) };
        let buffer = Value::checked(copied)?;
        let mut args = [buffer.0, q::JS_UNDEFINED, q::JS_UNDEFINED];
        // SAFETY: the context; the three arguments are alive.
        Value::checked(unsafe { q::JS_NewTypedArray(context(), 3, args.as_mut_ptr(), kind) })
    }
    pub(crate) fn date(epoch_ms: f64) -> Js<Self> {
        // SAFETY: the context.
        Value::checked(unsafe { q::JS_NewDate(context(), epoch_ms) })
    }
    pub(crate) fn map() -> Js<Self> {
        with_handles(|h| h.map.clone()).call_as_constructor(&[])
    }
    pub(crate) fn set() -> Js<Self> {
        with_handles(|h| h.set.clone()).call_as_constructor(&[])
    }
}
