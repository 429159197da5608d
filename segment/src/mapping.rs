//! Pages mapped by the kernel: the only place where memory does not come from the allocator.
#![allow(unsafe_code)]

use std::{ffi::c_void, os::fd::BorrowedFd, ptr::NonNull, sync::atomic::AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, mmap_anonymous, munmap};

use crate::{memory::MemoryError, words::WORD};

/// A mapping owned by this value, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    first: NonNull<AtomicU64>,
    words: usize,
    writable: bool,
}

// SAFETY: it owns its pages, which are accessed only by atomic operations; those may come from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file whose size is sealed at `bytes`, rounded up to words, or more.
    pub(crate) fn of(file: BorrowedFd<'_>, bytes: u64, writable: bool) -> Result<Self, MemoryError> {
        let words = word_count(bytes)?;
        let rights = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses a new address, so no memory that this process already uses is affected.
        let first = unsafe { mmap(std::ptr::null_mut(), words * WORD, rights, MapFlags::SHARED, file, 0) }?;
        Self::at(first, words, writable)
    }

    /// Private pages that are locked into memory.
    pub(crate) fn locked(bytes: u64) -> Result<Self, MemoryError> {
        let words = word_count(bytes)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `of`.
        let first = unsafe { mmap_anonymous(std::ptr::null_mut(), words * WORD, rights, MapFlags::PRIVATE) }?;
        let mapping = Self::at(first, words, true)?;
        mapping.lock()?;
        Ok(mapping)
    }

    /// Locks the pages into memory.
    pub(crate) fn lock(&self) -> Result<(), MemoryError> {
        // SAFETY: the range is exactly the pages of this mapping, and locking does not change their contents.
        Ok(unsafe { mlock(self.first.as_ptr().cast(), self.words * WORD) }?)
    }

    fn at(first: *mut c_void, words: usize, writable: bool) -> Result<Self, MemoryError> {
        let first = NonNull::new(first.cast()).ok_or(MemoryError::Foreign("lies nowhere"))?;
        Ok(Self { first, words, writable })
    }

    pub(crate) const fn is_writable(&self) -> bool {
        self.writable
    }

    /// Stores into these words fault if the mapping is not writable: [`crate::Memory`] checks that before.
    pub(crate) const fn words(&self) -> &[AtomicU64] {
        // SAFETY: this many words are mapped, aligned to a page, for as long as `self` lives, and the sealed size keeps them there. Any bytes are a valid
        // `AtomicU64`, and those may change at any time.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, and all borrows from it have ended. Locked pages are unlocked with it.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.words * WORD) };
    }
}

/// At least one word, since an empty range cannot be mapped.
fn word_count(bytes: u64) -> Result<usize, MemoryError> {
    let too_large = || MemoryError::Foreign("is larger than this machine can map");
    let words = usize::try_from(bytes.div_ceil(WORD as u64)).map_err(|_| too_large())?.max(1);
    words.checked_mul(WORD).filter(|bytes| *bytes <= isize::MAX as usize).map(|_| words).ok_or_else(too_large)
}
