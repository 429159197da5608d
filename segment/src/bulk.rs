//! Whole words to and from memory of this process's own. x86-64 copies long rows of them by one instruction, `rep movsq`, which moves lines of the cache and does not read
//! those that it overwrites: as fast as `memcpy`, which promises no whole words.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::words::WORD;

/// Shorter rows are copied word by word, in bytes: the instruction takes a while to begin.
const LONG_BYTES_MIN: usize = 2 << 10;

/// Copies each word out.
///
/// # Panics
/// `out` has not room for just these words.
pub(crate) fn read(words: &[AtomicU64], out: &mut [u8]) {
    assert_eq!(words.len() * WORD, out.len(), "as many words as there is room for");
    if is_long(out) {
        // SAFETY: both have so many words, and `out`, being borrowed alone, is not among the others.
        unsafe { copy(words.as_ptr().cast(), out.as_mut_ptr().cast(), words.len()) };
        return;
    }
    for (out, word) in out.chunks_exact_mut(WORD).zip(words) {
        out.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
    }
}

/// Copies each word in.
///
/// # Panics
/// `bytes` are not just these words'.
pub(crate) fn write(words: &[AtomicU64], bytes: &[u8]) {
    assert_eq!(words.len() * WORD, bytes.len(), "as many words as there are bytes for");
    if is_long(bytes) {
        // SAFETY: both have so many words; those written to are atomic, so that they may change while they are shared, and `bytes`, which may not, are not among them.
        unsafe { copy(bytes.as_ptr().cast(), words.as_ptr().cast_mut().cast(), words.len()) };
        return;
    }
    for (bytes, word) in bytes.chunks_exact(WORD).zip(words) {
        let mut whole = [0; WORD];
        whole.copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Relaxed);
    }
}

/// Whether the one instruction is the faster way: across the boundaries of words it is slow.
fn is_long(own: &[u8]) -> bool {
    cfg!(all(target_arch = "x86_64", not(miri)))
        && own.len() >= LONG_BYTES_MIN
        && own.as_ptr().addr().is_multiple_of(WORD)
}

/// Copies words one by one, in no promised order.
///
/// # Safety
/// So many aligned words may be read at `from` and written at `to`, apart from each other. Either side may change meanwhile where it lies in [`AtomicU64`]s.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy(from: *const u64, to: *mut u64, words: usize) {
    // SAFETY: each turn of `movsq` loads an aligned word of 8 bytes and stores it, whole (Intel SDM volume 3, sections 8.1.1 and 8.2.4: their order among each other is open, and stores after
    // the instruction come after all of its own): as relaxed atomic loads and stores would. The direction flag is clear on entry of `asm!`. What it touches is the caller's promise.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") words => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// There is no such instruction, and [`is_long`] says so.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy(_: *const u64, _: *mut u64, _: usize) {}
