//! Where events come in and go out.

use std::cell::RefCell;

/// Buffers up to this size are kept between events.
const KEPT_BYTES: usize = 16 << 10;

thread_local! {
    static IN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<[u32; 4]> = const { RefCell::new([0; 4]) };
}

/// A place for the next event.
pub fn alloc(length: u32) -> u32 {
    IN.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(length as usize, 0);
        address(buffer.as_ptr())
    })
}

/// Takes the event that the host wrote.
pub(crate) fn event(length: u32) -> Vec<u8> {
    IN.with_borrow(|buffer| buffer.get(..length as usize).unwrap_or_default().to_vec())
}

/// Hands an outbox to the host.
pub(crate) fn outbox(bytes: Vec<u8>) -> u64 {
    OUT.with_borrow_mut(|buffer| {
        *buffer = bytes;
        packed(buffer)
    })
}

/// Frees what the last event and outbox held.
pub fn settle() {
    for buffer in [&IN, &OUT] {
        buffer.with_borrow_mut(|buffer| {
            buffer.fill(0);
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
        });
    }
}

/// The stack: nothing on it is alive between events.
pub fn scratch() -> u32 {
    unsafe extern "C" {
        // The linker's: only their addresses mean something.
        static __stack_low: u8;
        static __stack_high: u8;
    }
    let low = address(&raw const __stack_low);
    let high = address(&raw const __stack_high);
    SCRATCH.with_borrow_mut(|list| {
        *list = [low, high - low, 0, 0];
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
