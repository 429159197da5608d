//! Bytes in arrays of atomic words, in native byte order. Callers have checked the bounds.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use crate::bulk;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Copies bytes out.
pub(crate) fn read(words: &[AtomicU64], offset: usize, out: &mut [u8]) {
    let (head, body, tail, first) = split(offset, out.len());
    let (out_head, rest) = out.split_at_mut(head);
    let (out_body, out_tail) = rest.split_at_mut(body);
    if head > 0 {
        let word = words[first].load(Relaxed).to_ne_bytes();
        out_head.copy_from_slice(&word[offset % WORD..offset % WORD + head]);
    }
    let first = first + usize::from(head > 0);
    bulk::read(&words[first..first + body / WORD], out_body);
    if tail > 0 {
        out_tail.copy_from_slice(&words[first + body / WORD].load(Relaxed).to_ne_bytes()[..tail]);
    }
    // If the reader has seen a word, its later reads see everything that was written before that word.
    fence(Acquire);
}

/// Copies bytes in.
pub(crate) fn write(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    fence(Release);
    let (head, body, tail, first) = split(offset, bytes.len());
    let (head_bytes, rest) = bytes.split_at(head);
    let (body_bytes, tail_bytes) = rest.split_at(body);
    if head > 0 {
        patch(&words[first], offset % WORD, head_bytes);
    }
    let first = first + usize::from(head > 0);
    bulk::write(&words[first..first + body / WORD], body_bytes);
    if tail > 0 {
        patch(&words[first + body / WORD], 0, tail_bytes);
    }
}

/// The bytes before the first whole word, in whole words, and after the last; and the index of the first word touched.
const fn split(offset: usize, bytes: usize) -> (usize, usize, usize, usize) {
    let to_boundary = (WORD - offset % WORD) % WORD;
    let head = if to_boundary < bytes { to_boundary } else { bytes };
    let body = (bytes - head) / WORD * WORD;
    (head, body, bytes - head - body, offset / WORD)
}

/// Replaces bytes within a word, and keeps the others as they are at that moment.
fn patch(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let put = |now: u64| {
        let mut now = now.to_ne_bytes();
        now[at..at + bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(now)
    };
    let mut now = word.load(Relaxed);
    while let Err(other) = word.compare_exchange_weak(now, put(now), Relaxed, Relaxed) {
        now = other;
    }
}

/// Replaces a word of 8 bytes by `new` if it equals `old`. Returns the word before.
pub(crate) fn swap8(words: &[AtomicU64], offset: usize, old: u64, new: u64) -> u64 {
    words[offset / WORD].compare_exchange(old, new, SeqCst, SeqCst).unwrap_or_else(|was| was)
}

/// Like [`swap8`], for a word of 4 bytes.
pub(crate) fn swap4(words: &[AtomicU64], offset: usize, old: u32, new: u32) -> u32 {
    let word = &words[offset / WORD];
    let at = offset % WORD;
    let mut now = word.load(SeqCst);
    loop {
        let mut bytes = now.to_ne_bytes();
        let part: &mut [u8] = &mut bytes[at..at + 4];
        let was = u32::from_ne_bytes([part[0], part[1], part[2], part[3]]);
        if was != old {
            return was;
        }
        part.copy_from_slice(&new.to_ne_bytes());
        match word.compare_exchange_weak(now, u64::from_ne_bytes(bytes), SeqCst, SeqCst) {
            Ok(_) => return was,
            Err(other) => now = other,
        }
    }
}
