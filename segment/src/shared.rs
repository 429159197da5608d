//! Pages that another process on this host may map too.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, SeqCst},
        compiler_fence, fence,
    },
};

use rustix::fs::{
    FallocateFlags, FsWord, MemfdFlags, Mode as Bits, SealFlags, fallocate, fchmod, fcntl_add_seals, fcntl_get_seals,
    fstat, fstatfs, ftruncate, memfd_create,
};

use crate::{Memory, MemoryError, barrier, mapping::Mapping, words::WORD};

/// What other processes may do with the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nobody else can map them writable in any way: they are sealed against it (`F_SEAL_FUTURE_WRITE`).
    ReadOnly,
    /// Holders of a writable descriptor may write. Others get a read-only one, which only a process of the same user could reopen for writing.
    Writable,
}

/// The file system of a memfd (statfs(2)).
const TMPFS_MAGIC: FsWord = 0x0102_1994;
/// The number of words in the state page.
const STATE_WORDS: u64 = 3;
/// 1 while the pages are those of the segment.
const LIVE: usize = 0;
/// The owner's flags, for those who share the pages.
const FLAGS: usize = 1;
/// 1 if the owner raises a barrier ([`barrier::raise`]) between giving up the pages and relying on their contents.
const RAISES: usize = 2;

/// An owner's pages, and the page that says whether they are still valid.
#[derive(Debug)]
pub struct Shared {
    mode: Mode,
    file: OwnedFd,
    state_file: OwnedFd,
    state: Mapping,
}

/// What another process needs to attach, with no more rights than it was given.
#[derive(Debug)]
pub struct Handles {
    /// The segment's pages.
    pub pages: OwnedFd,
    /// The page that says whether they are still valid, read-only.
    pub state: OwnedFd,
}

impl Shared {
    /// The bytes of `from` in fresh pages that others may map, and the owner's own access to them. `locked`: the pages are never swapped out.
    ///
    /// # Errors
    /// The system has no memory or no descriptor left.
    pub fn of(from: &Memory, mode: Mode, locked: bool) -> Result<(Self, Memory), MemoryError> {
        let (shared, memory) = Self::zeros(from.bytes(), mode, locked)?;
        memory.take_over(from);
        Ok((shared, memory))
    }

    /// Zeroed pages of this size that others may map, which take no memory until they are touched.
    ///
    /// # Errors
    /// As [`Shared::of`].
    pub fn zeros(bytes: u64, mode: Mode, locked: bool) -> Result<(Self, Memory), MemoryError> {
        let (file, pages) = sealed("catena-segment", bytes, mode)?;
        let (state_file, state) = sealed("catena-segment-state", STATE_WORDS * WORD as u64, Mode::ReadOnly)?;
        if locked {
            pages.lock()?;
        }
        let memory = Memory::mapped(bytes, pages);
        state.words()[RAISES].store(barrier::may_raise().into(), SeqCst);
        state.words()[LIVE].store(1, SeqCst);
        Ok((Self { mode, file, state_file, state }, memory))
    }

    /// What other processes may do with the pages.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets flags that processes sharing the pages see at once.
    pub fn set_flags(&self, flags: u64) {
        self.state.words()[FLAGS].store(flags, SeqCst);
    }

    /// Tells processes that share the pages that these are not valid any more. Everything that they wrote and then found valid can be copied after this.
    pub fn retire(&self) {
        self.state.words()[LIVE].store(0, SeqCst);
        fence(SeqCst);
        barrier::raise();
    }

    /// Returns the pages to the system even if others still map them; those read zeros from then on. Retire the pages first. Pages sealed against writing
    /// cannot be returned in this way; they are freed with their last mapping.
    pub fn discard(&self) {
        let Ok(bytes) = fstat(&self.file).map(|stat| stat.st_size.unsigned_abs()) else { return };
        if self.mode == Mode::Writable {
            // If the system cannot do this, the pages are freed with their last mapping, too.
            let _ = fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes);
        }
    }

    /// Descriptors to pass to another process.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn handles(&self, writable: bool) -> Result<Handles, MemoryError> {
        let pages = match writable && self.mode == Mode::Writable {
            true => self.file.try_clone()?,
            false => reopened(&self.file)?,
        };
        Ok(Handles { pages, state: reopened(&self.state_file)? })
    }
}

/// Another process's pages, mapped here.
#[derive(Debug)]
pub struct Attached {
    memory: Memory,
    state: Mapping,
    /// The owner provides the barrier between an access and the check of validity. An owner that falsely claims so only harms its own segment.
    spared: bool,
}

impl Attached {
    /// Maps what an owner gave, without trusting it: a file that could shrink under a reader is refused.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`]: it does not have the required form.
    pub fn to(handles: &Handles, bytes: u64, writable: bool) -> Result<Self, MemoryError> {
        check(&handles.pages, bytes)?;
        check(&handles.state, STATE_WORDS * WORD as u64)?;
        let state = Mapping::of(handles.state.as_fd(), STATE_WORDS * WORD as u64, false)?;
        let pages = Mapping::of(handles.pages.as_fd(), bytes, writable)?;
        // Registers this process first, so that later checks are covered by the barriers of others.
        let spared = barrier::takes_part() && state.words()[RAISES].load(SeqCst) == 1;
        Ok(Self { memory: Memory::mapped(bytes, pages), state, spared })
    }

    /// The bytes. A write counts if [`Attached::is_live`] returns true afterwards, a read if [`Attached::was_live`] does.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether the pages are still the segment's.
    #[must_use]
    pub fn is_live(&self) -> bool {
        // Orders the access before this with the load of the word, as `Shared::retire` does on the other side.
        match self.spared {
            true => compiler_fence(SeqCst),
            false => fence(SeqCst),
        }
        self.word(LIVE).load(SeqCst) == 1
    }

    /// The same after reads alone, and cheaper: loads stay in order without waiting for stores.
    #[must_use]
    pub fn was_live(&self) -> bool {
        fence(Acquire);
        self.word(LIVE).load(Acquire) == 1
    }

    /// The owner's flags.
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.word(FLAGS).load(Acquire)
    }

    const fn word(&self, at: usize) -> &AtomicU64 {
        &self.state.words()[at]
    }
}

/// A memfd whose size can never change, and the owner's mapping of it.
fn sealed(name: &str, bytes: u64, mode: Mode) -> Result<(OwnedFd, Mapping), MemoryError> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, rounded(bytes))?;
    // Otherwise another user's process with a read-only descriptor could reopen the file for writing.
    fchmod(&file, Bits::RUSR | Bits::WUSR)?;
    let mapping = Mapping::of(file.as_fd(), bytes, true)?;
    let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    if mode == Mode::ReadOnly {
        // The owner's own mapping, made before the seal, stays writable.
        seals |= SealFlags::FUTURE_WRITE;
    }
    fcntl_add_seals(&file, seals)?;
    Ok((file, mapping))
}

/// The size in whole words, at least one.
const fn rounded(bytes: u64) -> u64 {
    let words = bytes.div_ceil(WORD as u64);
    (if words == 0 { 1 } else { words }) * WORD as u64
}

/// A read-only descriptor of the same file.
fn reopened(file: &OwnedFd) -> Result<OwnedFd, MemoryError> {
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

fn check(file: &OwnedFd, bytes: u64) -> Result<(), MemoryError> {
    let seals = fcntl_get_seals(file).map_err(|_| MemoryError::Foreign("cannot be sealed"))?;
    // Huge pages can be sealed too, but fault when none are left.
    if fstatfs(file)?.f_type != TMPFS_MAGIC {
        return Err(MemoryError::Foreign("is of another kind than memory that is mapped page by page"));
    }
    if !seals.contains(SealFlags::SHRINK) {
        return Err(MemoryError::Foreign("may shrink while it is read"));
    }
    match u64::try_from(fstat(file)?.st_size) {
        Ok(size) if size.checked_sub(bytes).is_some() && size.is_multiple_of(WORD as u64) => Ok(()),
        _ => Err(MemoryError::Foreign("is shorter than it was said to be")),
    }
}
