//! Copies whole words to and from private memory. x86-64 copies long ranges by one instruction, `rep movsq`, which moves whole cache lines without reading
//! those that it overwrites: as fast as `memcpy`, which does not guarantee whole words.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::words::WORD;

/// Shorter ranges, in bytes, are copied word by word: the instruction is slow to start.
const LONG_BYTES_MIN: usize = 2 << 10;

/// Copies each word out.
///
/// # Panics
/// If the length of `out` is not exactly that of the words.
pub(crate) fn read(words: &[AtomicU64], out: &mut [u8]) {
    assert_eq!(words.len() * WORD, out.len(), "as many words as there is room for");
    if is_long(out) {
        // SAFETY: both sides have this many words, and `out`, which is borrowed exclusively, does not overlap `words`.
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
/// If the length of `bytes` is not exactly that of the words.
pub(crate) fn write(words: &[AtomicU64], bytes: &[u8]) {
    assert_eq!(words.len() * WORD, bytes.len(), "as many words as there are bytes for");
    if is_long(bytes) {
        // SAFETY: both have this many words; those written are atomics, which may change while shared, and `bytes`, which may not, does not overlap them.
        unsafe { copy(bytes.as_ptr().cast(), words.as_ptr().cast_mut().cast(), words.len()) };
        return;
    }
    for (bytes, word) in bytes.chunks_exact(WORD).zip(words) {
        let mut whole = [0; WORD];
        whole.copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Relaxed);
    }
}

/// Whether the single instruction is faster; it is slow if `own` is not aligned to words.
fn is_long(own: &[u8]) -> bool {
    cfg!(all(target_arch = "x86_64", not(miri)))
        && own.len() >= LONG_BYTES_MIN
        && own.as_ptr().addr().is_multiple_of(WORD)
}

/// Copies word by word, in no guaranteed order.
///
/// # Safety
/// `words` aligned words may be read at `from` and written at `to`, and do not overlap. Either side may change meanwhile where it lies in [`AtomicU64`]s.
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

/// Never called: there is no such instruction here, so [`is_long`] returns false.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy(_: *const u64, _: *mut u64, _: usize) {}
