//! What typed arrays and buffers hold.

use core::slice;

use rquickjs_sys as q;

use super::{Js, Value, context};

impl Value {
    /// Hands the bytes of a typed array or an ArrayBuffer to `read`, which must not run the program: it could take them away.
    pub(crate) fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Js<R> {
        let mut len = 0;
        // SAFETY: alive.
        if unsafe { q::JS_IsArrayBuffer(self.0) } {
            // SAFETY: the context; alive; room.
            let bytes = unsafe { q::JS_GetArrayBuffer(context(), &mut len, self.0) };
            // SAFETY: the buffer has `len` bytes there, and `self` keeps it.
            return Ok(read(unsafe { raw_bytes(bytes, 0, len) }));
        }
        let (mut offset, mut each) = (0, 0);
        // SAFETY: the context; alive; room.
        let raw = unsafe { q::JS_GetTypedArrayBuffer(context(), self.0, &mut offset, &mut len, &mut each) };
        let buffer = Value::checked(raw)?;
        let mut total = 0;
        // SAFETY: the context; alive; room.
        let bytes = unsafe { q::JS_GetArrayBuffer(context(), &mut total, buffer.0) };
        let len = len.min(total.saturating_sub(offset));
        // SAFETY: the buffer has `total` bytes there, and `buffer` keeps it; what is read of it ends before that.
        Ok(read(unsafe { raw_bytes(bytes, offset, len) }))
    }
}

/// # Safety
/// `bytes` must be null, or `len` bytes from `offset` on must stay readable and unwritten while the answer is used.
pub(super) unsafe fn raw_bytes<'a>(bytes: *const u8, offset: u32, len: u32) -> &'a [u8] {
    if bytes.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(bytes.add(offset as usize), len as usize) }
}
