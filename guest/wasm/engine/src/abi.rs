//! The exports of the guest ABI: bytes in, bytes out.
#![allow(unsafe_code)]

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::{ptr, slice};

use crate::js::{self, Single};
use crate::{engine, heap, layers, limits, load};

/// Room for an event in, and for the events out, that costs nothing when unused: declared as scratch.
const FIXED_BYTES: usize = 256 * 1024;

struct Inbox {
    fixed: Vec<u8>,
    /// For an event that is larger; given back after the turn.
    large: Vec<u8>,
}

static INBOX: Single<RefCell<Inbox>> = Single(RefCell::new(Inbox { fixed: Vec::new(), large: Vec::new() }));
/// Pairs of (start, length), zero-terminated.
static SCRATCH: Single<Cell<[u32; 8]>> = Single(Cell::new([0; 8]));

// SAFETY: wasm-ld defines both; only their addresses are used.
unsafe extern "C" {
    /// From the linker: where the stack ends and begins.
    static __stack_low: u8;
    static __stack_high: u8;
}

/// Sets the engine up. Run once, before the base image is taken.
#[unsafe(no_mangle)]
extern "C" fn catena_init() {
    js::init();
    if js::intern().is_err() || layers::install().is_err() {
        core::arch::wasm32::unreachable();
    }
    let inbox = &mut *INBOX.0.borrow_mut();
    inbox.fixed.reserve_exact(FIXED_BYTES);
    let input = inbox.fixed.as_ptr() as u32;
    let output = engine::with_outbox(|out| out.reserve(FIXED_BYTES)).map_or(0, |(start, _)| start as u32);
    let (low, high) = (&raw const __stack_low as u32, &raw const __stack_high as u32);
    // A range that starts at zero would look like the end of the list.
    let low = low.max(16);
    let bytes = FIXED_BYTES as u32;
    SCRATCH.0.set([low, high - low, input, bytes, output, bytes, 0, 0]);
    js::keep_for_good();
    heap::seal();
    clear_dead_stack(low as usize);
}

/// The image need not hold what setting up has left on the stack.
#[inline(never)]
fn clear_dead_stack(low: usize) {
    /// More than this function and the ones it calls need.
    const MARGIN_BYTES: usize = 1024;
    let here = 0u8;
    let top = (&raw const here as usize).saturating_sub(MARGIN_BYTES);
    // SAFETY: below this frame the stack is dead, down to where the linker ends it.
    unsafe { ptr::write_bytes(low as *mut u8, 0, top.saturating_sub(low)) };
}

/// Marks the version of the ABI.
#[unsafe(no_mangle)]
extern "C" fn catena_abi_v1() {}

/// The place for every event that fits: `(address << 32) | length`.
#[unsafe(no_mangle)]
extern "C" fn catena_inbox() -> u64 {
    let inbox = &*INBOX.0.borrow();
    (inbox.fixed.as_ptr() as u64) << 32 | inbox.fixed.capacity() as u64
}

/// A place for the next event: at least `len` bytes, or 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn catena_alloc(len: u32) -> u32 {
    let inbox = &mut *INBOX.0.borrow_mut();
    if len as usize <= inbox.fixed.capacity() {
        return inbox.fixed.as_ptr() as u32;
    }
    inbox.large = Vec::new();
    match inbox.large.try_reserve_exact(len as usize) {
        Ok(()) => inbox.large.as_ptr() as u32,
        Err(_) => 0,
    }
}

/// Takes in a function's source.
#[unsafe(no_mangle)]
extern "C" fn catena_load(event: u32, len: u32) -> u64 {
    // SAFETY: the host has written `len` bytes at an address from `catena_alloc`.
    load::load(unsafe { bytes_in(event, len) });
    outbox()
}

/// Begins the function.
#[unsafe(no_mangle)]
extern "C" fn catena_start(event: u32, len: u32) -> u64 {
    // SAFETY: as in `catena_load`.
    engine::start(unsafe { bytes_in(event, len) });
    outbox()
}

/// One call has settled.
#[unsafe(no_mangle)]
extern "C" fn catena_resume(event: u32, len: u32) -> u64 {
    // SAFETY: as in `catena_load`.
    engine::resume(unsafe { bytes_in(event, len) });
    outbox()
}

/// The host has read the outbox: what the turn needed for its events, beyond the fixed parts, is given back.
#[unsafe(no_mangle)]
extern "C" fn catena_settle() {
    INBOX.0.borrow_mut().large = Vec::new();
    engine::with_outbox(|out| out.release());
}

/// Where the program is, when it was stopped by force: `(line << 32) | column`.
#[unsafe(no_mangle)]
extern "C" fn catena_where() -> u64 {
    let at = limits::stopped_at();
    u64::from(at.line) << 32 | u64::from(at.column)
}

/// The ranges whose content means nothing between turns.
#[unsafe(no_mangle)]
extern "C" fn catena_scratch() -> u32 {
    SCRATCH.0.as_ptr() as u32
}

/// # Safety
/// `len` bytes from `address` on must be written, and stay as they are while the answer is used.
unsafe fn bytes_in<'a>(address: u32, len: u32) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(address as *const u8, len as usize) }
}

fn outbox() -> u64 {
    let (start, len) = engine::with_outbox(|out| out.finish()).unwrap_or((0, 0));
    (start as u64) << 32 | len as u64
}
