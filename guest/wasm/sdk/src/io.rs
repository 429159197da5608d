//! Where events come in and go out.

use std::cell::{RefCell, UnsafeCell};

/// What is no longer than this comes in and goes out through a place of its own, which is scratch: nothing is left to be freed.
const FIXED_BYTES: usize = 16 << 10;

struct Fixed(UnsafeCell<[u8; FIXED_BYTES]>);

// SAFETY: a guest has one thread: modules with shared memory are not admitted.
unsafe impl Sync for Fixed {}

static INBOX: Fixed = Fixed(UnsafeCell::new([0; FIXED_BYTES]));
static OUTBOX: Fixed = Fixed(UnsafeCell::new([0; FIXED_BYTES]));

thread_local! {
    static LARGE_IN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static LARGE_OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<[u32; 8]> = const { RefCell::new([0; 8]) };
}

/// The place for every event that fits.
pub fn inbox() -> u64 {
    u64::from(address(INBOX.0.get().cast())) << 32 | FIXED_BYTES as u64
}

/// A place for the next event.
pub fn alloc(length: u32) -> u32 {
    if length as usize <= FIXED_BYTES {
        return address(INBOX.0.get().cast());
    }
    LARGE_IN.with_borrow_mut(|buffer| {
        buffer.resize(length as usize, 0);
        address(buffer.as_ptr())
    })
}

/// Takes the event that the host wrote.
pub(crate) fn event(length: u32) -> Vec<u8> {
    let length = length as usize;
    if length > FIXED_BYTES {
        return LARGE_IN.with_borrow(|buffer| buffer.get(..length).unwrap_or_default().to_vec());
    }
    // SAFETY: only the host writes there, and never while the guest runs.
    let inbox = unsafe { &*INBOX.0.get() };
    inbox.get(..length).unwrap_or_default().to_vec()
}

/// Hands an outbox to the host.
pub(crate) fn outbox(bytes: Vec<u8>) -> u64 {
    // SAFETY: one thread, and no other reference to it: the host reads it when the guest has returned.
    let fixed = unsafe { &mut *OUTBOX.0.get() };
    if let Some(place) = fixed.get_mut(..bytes.len()) {
        place.copy_from_slice(&bytes);
        return packed(place);
    }
    LARGE_OUT.with_borrow_mut(|buffer| {
        *buffer = bytes;
        packed(buffer)
    })
}

/// Frees what the last event and outbox held beyond the fixed places.
pub fn settle() {
    LARGE_IN.take();
    LARGE_OUT.take();
}

/// The stack, on which nothing is alive between events, and the places for events.
pub fn scratch() -> u32 {
    unsafe extern "C" {
        // The linker's: only their addresses mean something.
        static __stack_low: u8;
        static __stack_high: u8;
    }
    let low = address(&raw const __stack_low);
    let high = address(&raw const __stack_high);
    let [inbox, outbox] = [&INBOX, &OUTBOX].map(|fixed| address(fixed.0.get().cast()));
    let length = FIXED_BYTES as u32;
    SCRATCH.with_borrow_mut(|list| {
        *list = [low, high - low, inbox, length, outbox, length, 0, 0];
        address(list.as_ptr().cast())
    })
}

/// Where something lies and how long it is, as the host wants to know it.
pub(crate) fn packed(bytes: &[u8]) -> u64 {
    u64::from(address(bytes.as_ptr())) << 32 | bytes.len() as u64
}

fn address(pointer: *const u8) -> u32 {
    pointer.addr() as u32
}
