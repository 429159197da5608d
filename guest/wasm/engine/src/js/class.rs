//! Objects of a class of the host's: a program can hold and pass them, and neither make nor change them. What they stand for is in their property `parts`.

use core::cell::Cell;
use core::ptr;

use rquickjs_sys as q;

use super::{Js, Single, Value, context, name};

/// What the class is called, where a value is asked for its class.
pub(crate) const BLOB_CLASS: &str = "Blob";

static BLOB: Single<Cell<u32>> = Single(Cell::new(0));

/// Makes the class known. Called once.
///
/// # Safety
/// The runtime must be alive.
pub(super) unsafe fn register(runtime: *mut q::JSRuntime) {
    let class = q::JSClassDef {
        class_name: c"Blob".as_ptr(),
        finalizer: None,
        gc_mark: None,
        call: None,
        exotic: ptr::null_mut(),
    };
    let mut id = 0;
    // SAFETY: the caller's promise; room; the engine copies what it keeps of the definition.
    unsafe {
        q::JS_NewClassID(runtime, &mut id);
        q::JS_NewClass(runtime, id, &class);
    }
    BLOB.0.set(id);
}

impl Value {
    /// A blob, with these methods.
    pub(crate) fn blob(methods: &Value, parts: Value) -> Js<Self> {
        // SAFETY: the context; alive: the engine takes a reference of its own to the prototype.
        let made = unsafe { q::JS_NewObjectProtoClass(context(), methods.0, BLOB.0.get()) };
        let blob = Value::checked(made)?;
        blob.fix(name(|n| &n.parts), parts)?;
        Ok(blob)
    }
}
