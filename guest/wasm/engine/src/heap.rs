//! The one heap of the engine: JavaScript's, C's and Rust's.
//!
//! What lies in it travels, so it is made for small differences rather than for small footprints:
//!
//! - **No garbage.** A block is zeroed when it is freed. What a program has dropped neither costs bytes on
//!   the wire nor shows to whoever meets the continuation.
//! - **Neighbours in time are neighbours in memory.** Small blocks are cut one after the other from a chunk;
//!   a freed one is used again for the same size. [`seal`] forgets the holes that came before: what a chain
//!   allocates then lies densely in a few pages of its own instead of filling holes all over the image.
//!
//! Blocks above [`SMALL_BYTES_MAX`] come from dlmalloc.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use core::ptr;

use dlmalloc::Dlmalloc;

/// The largest block that is cut from a chunk, with its header.
const SMALL_BYTES_MAX: usize = 512;
/// Blocks are multiples of this, and what they hold is aligned to it.
const GRAIN: usize = 8;
/// In front of every block: how many bytes it can hold (u32).
const HEADER: usize = 4;
const CLASSES: usize = SMALL_BYTES_MAX / GRAIN + 1;
const CHUNK_BYTES: usize = 32 * 1024;
const CHUNK_ALIGN: usize = 4096;

struct Heap {
    large: UnsafeCell<Dlmalloc>,
    /// Per size: the block freed last, which holds the address of the one before.
    free: [Cell<usize>; CLASSES],
    next: Cell<usize>,
    end: Cell<usize>,
    exhausted: Cell<bool>,
}

// SAFETY: the module has one thread.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap {
    large: UnsafeCell::new(Dlmalloc::new()),
    free: [const { Cell::new(0) }; CLASSES],
    next: Cell::new(0),
    end: Cell::new(0),
    exhausted: Cell::new(false),
};

/// Whether an allocation has ever failed. Stays true: the program must not go on as if it had not.
pub(crate) fn exhausted() -> bool {
    HEAP.exhausted.get()
}

/// Forgets every hole among the small blocks (and wipes its last traces), and begins a new chunk.
pub(crate) fn seal() {
    for class in &HEAP.free {
        let mut block = class.replace(0);
        while block != 0 {
            // SAFETY: a block on a free list is ours, at least GRAIN + HEADER bytes from its header on.
            unsafe {
                let next = *(block as *const usize);
                *((block - HEADER) as *mut u32) = 0;
                *(block as *mut usize) = 0;
                block = next;
            }
        }
    }
    HEAP.next.set(0);
    HEAP.end.set(0);
    new_chunk();
}

fn new_chunk() -> bool {
    // SAFETY: one thread, and dlmalloc calls nothing that would come back here.
    let chunk = unsafe { (*HEAP.large.get()).malloc(CHUNK_BYTES, CHUNK_ALIGN) } as usize;
    if chunk == 0 {
        return false;
    }
    // The first header ends where the first aligned block begins.
    HEAP.next.set(chunk + GRAIN);
    HEAP.end.set(chunk + CHUNK_BYTES);
    true
}

fn out_of_memory() -> *mut u8 {
    HEAP.exhausted.set(true);
    ptr::null_mut()
}

fn malloc(bytes: usize) -> *mut u8 {
    let total = (bytes.max(1) + HEADER).next_multiple_of(GRAIN);
    if total > SMALL_BYTES_MAX {
        return malloc_large(bytes);
    }
    let class = &HEAP.free[total / GRAIN];
    let block = class.get();
    if block != 0 {
        // SAFETY: as in `seal`; the link is wiped so that the block is all zero again.
        unsafe {
            class.set(*(block as *const usize));
            *(block as *mut usize) = 0;
        }
        return block as *mut u8;
    }
    if HEAP.next.get() + total > HEAP.end.get() + HEADER && !new_chunk() {
        return out_of_memory();
    }
    let block = HEAP.next.get();
    HEAP.next.set(block + total);
    // SAFETY: the chunk is ours, and [block - HEADER, block - HEADER + total) of it is used by nobody else.
    unsafe { *((block - HEADER) as *mut u32) = (total - HEADER) as u32 };
    block as *mut u8
}

fn malloc_large(bytes: usize) -> *mut u8 {
    let Some(total) = bytes.checked_add(GRAIN) else {
        return out_of_memory();
    };
    if total > isize::MAX as usize {
        return out_of_memory();
    }
    // SAFETY: as in `new_chunk`.
    let base = unsafe { (*HEAP.large.get()).malloc(total, GRAIN) } as usize;
    if base == 0 {
        return out_of_memory();
    }
    let block = base + GRAIN;
    // SAFETY: the GRAIN bytes before the block are the head that was added to it.
    unsafe { *((block - HEADER) as *mut u32) = bytes as u32 };
    block as *mut u8
}

/// How many bytes fit.
///
/// # Safety
/// `block` must come from `malloc`, and not be free.
unsafe fn capacity(block: *const u8) -> usize {
    // SAFETY: such a block has its header before it.
    unsafe { *((block as usize - HEADER) as *const u32) as usize }
}

/// # Safety
/// `block` must be null or come from `malloc`, and must not be used again.
unsafe fn free(block: *mut u8) {
    if block.is_null() {
        return;
    }
    // SAFETY: the caller's promise; a block has the size that its header says, and is at least GRAIN - HEADER bytes, which is room
    // for the link of a free list.
    unsafe {
        let bytes = capacity(block);
        if bytes + HEADER > SMALL_BYTES_MAX {
            ptr::write_bytes(block, 0, bytes);
            (*HEAP.large.get()).free(block.sub(GRAIN), bytes + GRAIN, GRAIN);
            return;
        }
        wipe(block, bytes);
        let class = &HEAP.free[(bytes + HEADER) / GRAIN];
        *(block as *mut usize) = class.get();
        class.set(block as usize);
    }
}

/// Zeroes a small block. Volatile, because a call of `memory.fill` costs more than these few stores.
///
/// # Safety
/// `block` must have `bytes`, a multiple of four, that nobody uses.
unsafe fn wipe(block: *mut u8, bytes: usize) {
    let words = bytes / 8;
    // SAFETY: the caller's promise; blocks are aligned to GRAIN.
    unsafe {
        for i in 0..words {
            (block as *mut u64).add(i).write_volatile(0);
        }
        if !bytes.is_multiple_of(8) {
            (block.add(words * 8) as *mut u32).write_volatile(0);
        }
    }
}

/// # Safety
/// `block` must be null or come from `malloc`, and must not be used again if the answer is not null.
unsafe fn realloc(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() {
        return malloc(bytes);
    }
    // SAFETY: the caller's promise; both blocks have at least the bytes that are copied, and a new one overlaps no other.
    unsafe {
        let old = capacity(block);
        if bytes <= old && bytes * 2 >= old {
            ptr::write_bytes(block.add(bytes), 0, old - bytes);
            return block;
        }
        let new = malloc(bytes);
        if !new.is_null() {
            ptr::copy_nonoverlapping(block, new, old.min(bytes));
            free(block);
        }
        new
    }
}

// SAFETY: blocks are disjoint, aligned to GRAIN, and as large as asked for; what needs more alignment is refused.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > GRAIN {
            return ptr::null_mut();
        }
        malloc(layout.size())
    }
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's promise to `GlobalAlloc`.
        unsafe { free(block) }
    }
    unsafe fn realloc(&self, block: *mut u8, _: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise to `GlobalAlloc`.
        unsafe { realloc(block, bytes) }
    }
}

/// The heap as the C side wants it (`JSMallocFunctions`). The engine gives back only what it got here, and once.
pub(crate) mod c {
    use core::ffi::c_void;

    pub(crate) unsafe extern "C" fn js_calloc(_: *mut c_void, count: u32, size: u32) -> *mut c_void {
        let Some(bytes) = (count as usize).checked_mul(size as usize) else {
            return core::ptr::null_mut();
        };
        let block = super::malloc(bytes);
        if !block.is_null() {
            // A block of its own size is zero already; one new from a chunk may hold old marks of dlmalloc.
            // SAFETY: the block is new, and has `bytes`.
            unsafe { core::ptr::write_bytes(block, 0, bytes) };
        }
        block.cast()
    }
    pub(crate) unsafe extern "C" fn js_malloc(_: *mut c_void, size: u32) -> *mut c_void {
        super::malloc(size as usize).cast()
    }
    pub(crate) unsafe extern "C" fn js_free(_: *mut c_void, block: *mut c_void) {
        // SAFETY: the engine's promise.
        unsafe { super::free(block.cast()) }
    }
    pub(crate) unsafe extern "C" fn js_realloc(_: *mut c_void, block: *mut c_void, size: u32) -> *mut c_void {
        // SAFETY: the engine's promise.
        unsafe { super::realloc(block.cast(), size as usize).cast() }
    }
    pub(crate) unsafe extern "C" fn js_usable(block: *const c_void) -> u32 {
        if block.is_null() {
            return 0;
        }
        // SAFETY: the engine's promise.
        unsafe { super::capacity(block.cast()) as u32 }
    }
}
