//! The heap. It begins in the memory that the module starts with, which the image has too, where that of `std` would grow the
//! memory first; and what is freed is zeroed: what a function has forgotten must not travel with it, and zeros are what the image
//! holds there.

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
};

use dlmalloc::Dlmalloc;

struct Heap(UnsafeCell<Dlmalloc>);

// SAFETY: a guest has one thread: modules with shared memory are not admitted.
unsafe impl Sync for Heap {}

// SAFETY: every request goes to `Dlmalloc` as it came, whose contract is that of `GlobalAlloc`. None of its functions calls back
// into this one, so that each `&mut` is the only one while it lives. `dealloc` writes only to a block that is its to give back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: see above; the block has the layout's size.
        unsafe {
            block.write_bytes(0, layout.size());
            (*self.0.get()).free(block, layout.size(), layout.align());
        }
    }
    // `alloc_zeroed` and `realloc` are the trait's own: they call the two above, so that no block is left behind unzeroed.
}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new()));
