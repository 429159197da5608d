//! The runtime, its context and the jobs that wait.

use core::cell::Cell;
use core::ptr;

use rquickjs_sys as q;

use super::{Js, Pending, Single, class};
use crate::{heap, native};

/// What the engine's stack may take of the 1 MiB that the linker reserves.
const STACK_BYTES_MAX: u32 = 256 * 1024;
/// Cycles are looked for when this much lives; the image itself is well below. A collection writes to every object that is not
/// the image's, so it makes a large continuation: rarely is better than often.
const GC_BYTES: u32 = 4 * 1024 * 1024;

static RUNTIME: Single<Cell<*mut q::JSRuntime>> = Single(Cell::new(ptr::null_mut()));
static CONTEXT: Single<Cell<*mut q::JSContext>> = Single(Cell::new(ptr::null_mut()));

pub(super) fn rt() -> *mut q::JSRuntime {
    RUNTIME.0.get()
}

/// The context, for the unsafe leaves.
pub(crate) fn context() -> *mut q::JSContext {
    CONTEXT.0.get()
}

/// Makes another context the one that everything here works in, until the answer is set again.
pub(super) fn replace_context(context: *mut q::JSContext) -> *mut q::JSContext {
    CONTEXT.0.replace(context)
}

/// Sets up the runtime and its context. Called once.
pub(crate) fn init() {
    let allocator = q::JSMallocFunctions {
        js_calloc: Some(heap::c::js_calloc),
        js_malloc: Some(heap::c::js_malloc),
        js_free: Some(heap::c::js_free),
        js_realloc: Some(heap::c::js_realloc),
        js_malloc_usable_size: Some(heap::c::js_usable),
    };
    // SAFETY: the engine copies the table, whose functions live as long as the module, as do the handlers. This runs while the
    // image is taken, where memory does not run out: were a pointer null, the build would trap, not a chain.
    unsafe {
        let runtime = q::JS_NewRuntime2(&allocator, ptr::null_mut());
        RUNTIME.0.set(runtime);
        q::JS_SetMaxStackSize(runtime, STACK_BYTES_MAX);
        q::JS_SetGCThreshold(runtime, GC_BYTES);
        q::JS_SetInterruptHandler(runtime, Some(native::on_poll), ptr::null_mut());
        q::JS_SetModuleLoaderFunc(runtime, Some(native::on_import), None, ptr::null_mut());
        class::register(runtime);
        CONTEXT.0.set(q::JS_NewContext(runtime));
        native::add_module(context());
    }
}

/// Runs one job that waits, such as the rest of an async function. `None`: none waits.
pub(crate) fn run_job() -> Option<Js<()>> {
    let mut at = ptr::null_mut();
    // SAFETY: the context; room.
    match unsafe { q::JS_ExecutePendingJob(rt(), &mut at) } {
        0 => None,
        n if n < 0 => Some(Err(Pending)),
        _ => Some(Ok(())),
    }
}

/// Frees what only holds itself.
pub(super) fn collect() {
    // SAFETY: the context; nothing of the engine runs further up the stack that holds an object without a reference to it.
    unsafe { q::JS_RunGC(rt()) }
}

/// What there is now is never freed, and using it writes nothing to it: it is about to be part of an image. What has come since the
/// last time is looked at, and nothing else.
pub(crate) fn keep_for_good() {
    // SAFETY: of `quickjs.patch`, and with this signature.
    unsafe extern "C" {
        fn JS_MakeImmortal(runtime: *mut q::JSRuntime);
    }
    collect();
    // SAFETY: the runtime is there for good.
    unsafe { JS_MakeImmortal(rt()) }
}
