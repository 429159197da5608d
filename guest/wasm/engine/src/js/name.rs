//! Property names.

use core::ffi::c_int;
use core::ptr;

use rquickjs_sys as q;

use super::runtime::rt;
use super::{Js, Pending, Value, context};

/// A property name, interned.
#[derive(Clone, Copy)]
pub(crate) struct Name(pub(super) q::JSAtom);

impl Name {
    /// Interned for good.
    pub(super) fn new(text: &str) -> Self {
        // SAFETY: the context; the engine copies `len` bytes of `text`.
        Name(unsafe { q::JS_NewAtomLen(context(), text.as_ptr().cast(), text.len() as u32) })
    }
}

/// A property name that is let go when dropped.
pub(crate) struct Key(Name);

impl Key {
    pub(crate) fn new(text: &str) -> Js<Self> {
        let name = Name::new(text);
        if name.0 == 0 { Err(Pending) } else { Ok(Key(name)) }
    }
    /// The name of an object's class.
    pub(super) fn of_class(object: &Value) -> Self {
        // SAFETY: the context; alive; the name that comes back is ours to let go.
        Key(Name(unsafe { q::JS_GetClassName(rt(), q::JS_GetClassID(object.0)) }))
    }
    pub(crate) fn name(&self) -> Name {
        self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the context; the reference that is given up is ours.
        unsafe { q::JS_FreeAtom(context(), self.0.0) }
    }
}

/// The names of an object's own enumerable properties.
pub(crate) struct OwnNames {
    table: *mut q::JSPropertyEnum,
    len: u32,
}

impl OwnNames {
    pub(crate) fn of(object: &Value) -> Js<Self> {
        let (mut table, mut len) = (ptr::null_mut(), 0);
        let flags = (q::JS_GPN_STRING_MASK | q::JS_GPN_ENUM_ONLY) as c_int;
        // SAFETY: the context; alive; room.
        let got = unsafe { q::JS_GetOwnPropertyNames(context(), &mut table, &mut len, object.0, flags) };
        if got < 0 { Err(Pending) } else { Ok(OwnNames { table, len }) }
    }
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
    pub(crate) fn get(&self, i: u32) -> Name {
        assert!(i < self.len);
        // SAFETY: the table is ours until `drop`, and has `len` entries.
        Name(unsafe { (*self.table.add(i as usize)).atom })
    }
}

impl Drop for OwnNames {
    fn drop(&mut self) {
        // SAFETY: the context; the table and the names in it are ours, and used no more.
        unsafe { q::JS_FreePropertyEnum(context(), self.table, self.len) }
    }
}
