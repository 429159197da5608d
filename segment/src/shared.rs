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

/// What others may do with the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nobody else can map them writable, whatever they do: sealed so (`F_SEAL_FUTURE_WRITE`).
    ReadOnly,
    /// Those who are given a writable descriptor may write. Others get one that is not, which only a process of the same user could open anew.
    Writable,
}

/// What a memfd lies in (statfs(2)).
const TMPFS_MAGIC: FsWord = 0x0102_1994;
/// Words of the state page.
const STATE_WORDS: u64 = 3;
/// 1 while the pages are those of the segment.
const LIVE: usize = 0;
/// The owner's flags, for those who share the pages.
const FLAGS: usize = 1;
/// 1 if the owner raises a barrier ([`barrier::raise`]) between letting the pages go and believing them.
const RAISES: usize = 2;

/// An owner's pages, and the page that says whether they still count.
#[derive(Debug)]
pub struct Shared {
    mode: Mode,
    file: OwnedFd,
    state_file: OwnedFd,
    state: Mapping,
}

/// What another process needs to attach, with no more rights than it is given.
#[derive(Debug)]
pub struct Handles {
    /// The segment's pages.
    pub pages: OwnedFd,
    /// The page that says whether they still count: for reading.
    pub state: OwnedFd,
}

impl Shared {
    /// The bytes of `from` in fresh pages that others may map, and the owner's own memory of them. `locked`: pages that are never swapped out.
    ///
    /// # Errors
    /// There is no room, or no descriptor left.
    pub fn of(from: &Memory, mode: Mode, locked: bool) -> Result<(Self, Memory), MemoryError> {
        let (shared, memory) = Self::zeros(from.bytes(), mode, locked)?;
        memory.take_over(from);
        Ok((shared, memory))
    }

    /// So many bytes of zeros in pages that others may map, which take no room until they are touched.
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

    /// What others may do.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Flags that those who share the pages see at once.
    pub fn set_flags(&self, flags: u64) {
        self.state.words()[FLAGS].store(flags, SeqCst);
    }

    /// Tells those who share the pages that these count no more. What they wrote and found the pages alive after is there to be copied.
    pub fn retire(&self) {
        self.state.words()[LIVE].store(0, SeqCst);
        fence(SeqCst);
        barrier::raise();
    }

    /// Gives the pages back to the system, whoever still maps them: those read zeros from now on. Retire them first. Pages that are sealed against writing
    /// cannot be taken so; they go with their last mapping.
    pub fn discard(&self) {
        let Ok(bytes) = fstat(&self.file).map(|stat| stat.st_size.unsigned_abs()) else { return };
        if self.mode == Mode::Writable {
            // If the system cannot do it they go with their last mapping, too.
            let _ = fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes);
        }
    }

    /// Descriptors to give away.
    ///
    /// # Errors
    /// No descriptor left.
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
    /// The owner sees to the barrier between an access and the look whether it counts. An owner that says so and does not harms its own segment.
    spared: bool,
}

impl Attached {
    /// Maps what an owner gave, trusting it in nothing: what could shrink under a reader is refused.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`]: it is not what it has to be.
    pub fn to(handles: &Handles, bytes: u64, writable: bool) -> Result<Self, MemoryError> {
        check(&handles.pages, bytes)?;
        check(&handles.state, STATE_WORDS * WORD as u64)?;
        let state = Mapping::of(handles.state.as_fd(), STATE_WORDS * WORD as u64, false)?;
        let pages = Mapping::of(handles.pages.as_fd(), bytes, writable)?;
        // This process first: what it looks at after that is looked at under the barriers of others.
        let spared = barrier::takes_part() && state.words()[RAISES].load(SeqCst) == 1;
        Ok(Self { memory: Memory::mapped(bytes, pages), state, spared })
    }

    /// The bytes. What was written there counts if [`Attached::is_live`] says so afterwards, what was read if [`Attached::was_live`] does.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether the pages are still the segment's.
    #[must_use]
    pub fn is_live(&self) -> bool {
        // Orders the access before with this word, as `Shared::retire` does on the other side.
        match self.spared {
            true => compiler_fence(SeqCst),
            false => fence(SeqCst),
        }
        self.word(LIVE).load(SeqCst) == 1
    }

    /// The same after reads alone: cheaper, since loads stay in their order without waiting for stores.
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

/// A file in memory whose size can never change, and the owner's mapping of it.
fn sealed(name: &str, bytes: u64, mode: Mode) -> Result<(OwnedFd, Mapping), MemoryError> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, rounded(bytes))?;
    // Another user's process that is given a descriptor for reading cannot open the file anew for writing.
    fchmod(&file, Bits::RUSR | Bits::WUSR)?;
    let mapping = Mapping::of(file.as_fd(), bytes, true)?;
    let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    if mode == Mode::ReadOnly {
        // The owner's own mapping, made before, stays writable.
        seals |= SealFlags::FUTURE_WRITE;
    }
    fcntl_add_seals(&file, seals)?;
    Ok((file, mapping))
}

/// Whole words, and at least one.
const fn rounded(bytes: u64) -> u64 {
    let words = bytes.div_ceil(WORD as u64);
    (if words == 0 { 1 } else { words }) * WORD as u64
}

/// A descriptor of the same file that cannot be mapped writable.
fn reopened(file: &OwnedFd) -> Result<OwnedFd, MemoryError> {
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

fn check(file: &OwnedFd, bytes: u64) -> Result<(), MemoryError> {
    let seals = fcntl_get_seals(file).map_err(|_| MemoryError::Foreign("cannot be sealed"))?;
    // Huge pages can be sealed too, and fault where there are none.
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
