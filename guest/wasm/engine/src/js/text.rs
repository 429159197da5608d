//! Strings as UTF-8.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ffi::c_char;
use core::slice;

use rquickjs_sys as q;

use super::{Js, Name, Pending, Value, context};

/// The UTF-8 text of a string; lone surrogates have become U+FFFD.
pub(crate) struct Text {
    bytes: *const u8,
    len: usize,
}

impl Text {
    /// `String(value)`.
    pub(super) fn of(value: &Value) -> Js<Self> {
        let mut len = 0;
        // SAFETY: the context; alive; room.
        let bytes = unsafe { q::JS_ToCStringLen2(context(), &mut len, value.0, false) };
        Text::of_raw(bytes, len)
    }
    pub(crate) fn of_name(name: Name) -> Js<Self> {
        let mut len = 0;
        // SAFETY: the context; alive; room.
        let bytes = unsafe { q::JS_AtomToCStringLen(context(), &mut len, name.0) };
        Text::of_raw(bytes, len)
    }
    /// Takes over what the engine answered.
    fn of_raw(bytes: *const c_char, len: u32) -> Js<Self> {
        if bytes.is_null() { Err(Pending) } else { Ok(Text { bytes: bytes.cast(), len: len as usize }) }
    }
    pub(crate) fn get(&self) -> Cow<'_, str> {
        // SAFETY: the engine gave `len` bytes there, which are ours until `drop`.
        let bytes = unsafe { slice::from_raw_parts(self.bytes, self.len) };
        match core::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(well_formed(bytes)),
        }
    }
}

/// The engine writes a lone surrogate as three bytes that are not UTF-8: one U+FFFD stands for them.
fn well_formed(bytes: &[u8]) -> String {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(triple) = bytes.get_mut(at..at + 3) {
        if triple[0] == 0xed && triple[1] >= 0xa0 {
            triple.copy_from_slice("\u{fffd}".as_bytes());
        }
        at += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the context; the text is ours, and used no more.
        unsafe { q::JS_FreeCString(context(), self.bytes.cast()) }
    }
}
