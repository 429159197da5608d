//! What the module `"catena"` exports beside its natives: thin layers, themselves JavaScript.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::ffi::CStr;

use crate::js::{self, Js, Pending, Single, Value};
use crate::{engine, native};

/// Their names, as exported.
pub(crate) const NAMES: [&CStr; 3] = [c"replies", c"startChain", c"visit"];

/// In the order of [`NAMES`].
static LAYERS: Single<RefCell<Vec<Value>>> = Single(RefCell::new(Vec::new()));

/// What every blob can do.
static BLOB_METHODS: Single<RefCell<Option<Value>>> = Single(RefCell::new(None));

/// Makes them, once, before the base image is taken.
pub(crate) fn install() -> Js<()> {
    const SOURCE: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("layers.js"), "\0").as_bytes()) {
        Ok(source) => source,
        Err(_) => panic!("the layers' source has no zero in it"),
    };
    let code = js::compile(c"catena", SOURCE).map_err(|_| Pending)?;
    let module = js::evaluate(&code)?;
    if engine::run_jobs().is_some() {
        return Err(Pending);
    }
    let make = module.namespace.get(js::name(|n| &n.default))?;
    let [ask, read, leave] = native::replies_functions()?;
    let natives = [native::call_function()?, native::blob_function()?, ask, read, leave];
    let layers = make.call(&Value::UNDEFINED, &natives)?;
    for name in NAMES {
        let key = js::Key::new(name.to_str().unwrap_or_default())?;
        LAYERS.0.borrow_mut().push(layers.get(key.name())?);
    }
    let methods = layers.get(js::Key::new("blobMethods")?.name())?;
    BLOB_METHODS.0.replace(Some(methods));
    Ok(())
}

/// A blob, as the program sees it: of what stands within the tag that marks one.
pub(crate) fn blob(parts: Value) -> Js<Value> {
    let methods = BLOB_METHODS.0.borrow();
    Value::blob(methods.as_ref().unwrap_or(&Value::NULL), parts)
}

/// The layer with this number.
pub(crate) fn layer(number: usize) -> Value {
    LAYERS.0.borrow().get(number).cloned().unwrap_or(Value::UNDEFINED)
}
