//! An allocator that counts. `unsafe` is sound here: every call goes to the system's allocator unchanged, with the layout it was given.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

pub(crate) struct Counting;

thread_local! {
    static ASKED_BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // While a thread ends its counter is gone, and nobody asks for it any more.
    let _ = ASKED_BYTES.try_with(|asked| asked.set(asked.get().saturating_add(bytes)));
}

// SAFETY: forwards to `System`, which keeps the contract; counting touches a thread-local integer and never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: `pointer` came from `System` with this layout, and the caller promises that `bytes` is not zero.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Bytes that this thread asks for while `work` runs, given back or not.
pub(crate) fn bytes_asked_by(work: impl FnOnce()) -> usize {
    let before = ASKED_BYTES.get();
    work();
    ASKED_BYTES.get() - before
}
