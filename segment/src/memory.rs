//! The bytes of one segment, wherever they are.

use std::{
    io,
    ptr::NonNull,
    sync::{Arc, atomic::AtomicU64},
};

use bytes::Bytes;

use crate::{mapping::Mapping, words};

/// The width of a word that is compared and swapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 4 bytes.
    Four,
    /// 8 bytes.
    Eight,
}

impl Width {
    /// The width in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Why memory could not be allocated or accessed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The range exceeds the segment.
    #[error("{count} bytes at {offset} are not within the {bytes} bytes of the segment")]
    OutOfBounds {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        count: u64,
        /// How long the segment is.
        bytes: u64,
    },
    /// The offset of a word is not a multiple of its width.
    #[error("a word of {width} bytes cannot begin at {offset}: words begin at multiples of their width")]
    Unaligned {
        /// Where it was said to begin.
        offset: u64,
        /// Its width, in bytes.
        width: u64,
    },
    /// The memory is mapped for reading only.
    #[error("these pages may only be read")]
    ReadOnly,
    /// Something that another process gave as memory does not have the required form.
    #[error("what was given as shared memory {0}")]
    Foreign(&'static str),
    /// The system refused.
    #[error("no memory to be had: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for MemoryError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.into())
    }
}

/// The bytes of one segment. Every access checks its bounds first.
#[derive(Debug)]
pub struct Memory {
    bytes: u64,
    pages: Pages,
}

#[derive(Debug)]
enum Pages {
    /// Private to this process.
    Own(Box<[AtomicU64]>),
    /// May be shared with other processes.
    Mapped(Arc<Mapping>),
    /// Bytes that never change.
    Frozen(Bytes),
}

impl Memory {
    /// Zeroed private memory of this size.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn own(bytes: u64) -> Result<Self, MemoryError> {
        let count = usize::try_from(bytes.div_ceil(words::WORD as u64)).map_err(|_| no_room())?;
        let mut all = Vec::new();
        all.try_reserve_exact(count).map_err(|_| no_room())?;
        all.resize_with(count, || AtomicU64::new(0));
        Ok(Self { bytes, pages: Pages::Own(all.into_boxed_slice()) })
    }

    /// Memory of these bytes, without a copy. It is read-only.
    #[must_use]
    pub const fn frozen(bytes: Bytes) -> Self {
        Self { bytes: bytes.len() as u64, pages: Pages::Frozen(bytes) }
    }

    pub(crate) fn mapped(bytes: u64, mapping: Mapping) -> Self {
        Self { bytes, pages: Pages::Mapped(Arc::new(mapping)) }
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The mapped pages; `None` for memory that is not mapped.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        match &self.pages {
            Pages::Own(_) | Pages::Frozen(_) => None,
            Pages::Mapped(mapping) => Some(View { bytes: self.bytes, mapping: Arc::clone(mapping) }),
        }
    }

    /// Copies `out.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let offset = self.check(offset, out.len() as u64)?;
        match &self.pages {
            Pages::Own(words) => words::read(words, offset, out),
            Pages::Mapped(mapping) => words::read(mapping.words(), offset, out),
            Pages::Frozen(bytes) => out.copy_from_slice(&bytes[offset..offset + out.len()]),
        }
        Ok(())
    }

    /// `count` bytes from `offset` on without a copy, if the range is valid and the bytes never change.
    #[must_use]
    pub fn part(&self, offset: u64, count: u64) -> Option<Bytes> {
        let Pages::Frozen(bytes) = &self.pages else { return None };
        let offset = self.check(offset, count).ok()?;
        Some(bytes.slice(offset..offset + count as usize))
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], [`MemoryError::ReadOnly`]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let offset = self.check(offset, bytes.len() as u64)?;
        words::write(self.writable()?, offset, bytes);
        Ok(())
    }

    /// Replaces the word at `offset` by `new` if it equals `old`, in one atomic step. Returns the word before: `old` if it was replaced.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], [`MemoryError::Unaligned`], [`MemoryError::ReadOnly`]
    pub fn compare_and_swap(&self, offset: u64, width: Width, old: u64, new: u64) -> Result<u64, MemoryError> {
        if !offset.is_multiple_of(width.bytes()) {
            return Err(MemoryError::Unaligned { offset, width: width.bytes() });
        }
        let at = self.check(offset, width.bytes())?;
        let words = self.writable()?;
        Ok(match width {
            Width::Eight => words::swap8(words, at, old, new),
            Width::Four => u64::from(words::swap4(words, at, old as u32, new as u32)),
        })
    }

    /// Copies the bytes of another memory, up to the shorter length of the two.
    pub fn take_over(&self, from: &Self) {
        use std::sync::atomic::Ordering::Relaxed;
        let Ok(here) = self.writable() else { return };
        match &from.pages {
            Pages::Frozen(bytes) => words::write(here, 0, &bytes[..bytes.len().min(self.bytes as usize)]),
            Pages::Own(_) | Pages::Mapped(_) => {
                let pairs = here.iter().zip(from.words().unwrap_or_default());
                pairs.for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
            }
        }
    }

    /// A copy of the bytes in private pages, where later changes by others to the old ones are not seen. `locked`: the pages are never swapped out.
    ///
    /// # Errors
    /// The system has no memory left, or allows this process to lock no more of it (`RLIMIT_MEMLOCK`).
    pub fn fresh(&self, locked: bool) -> Result<Self, MemoryError> {
        let fresh = match locked {
            true => Self::mapped(self.bytes, Mapping::locked(self.bytes)?),
            false => Self::own(self.bytes)?,
        };
        fresh.take_over(self);
        Ok(fresh)
    }

    /// The address of the bytes, for hardware that copies them by itself. It is valid as long as `self` lives. `None`: they are not in writable words.
    #[must_use]
    pub fn place(&self) -> Option<*const AtomicU64> {
        self.words().map(<[_]>::as_ptr)
    }

    fn check(&self, offset: u64, count: u64) -> Result<usize, MemoryError> {
        let end = offset.checked_add(count).filter(|end| *end <= self.bytes);
        let place = end.and_then(|_| usize::try_from(offset).ok());
        place.ok_or(MemoryError::OutOfBounds { offset, count, bytes: self.bytes })
    }

    fn words(&self) -> Option<&[AtomicU64]> {
        match &self.pages {
            Pages::Own(words) => Some(words),
            Pages::Mapped(mapping) => Some(mapping.words()),
            Pages::Frozen(_) => None,
        }
    }

    fn writable(&self) -> Result<&[AtomicU64], MemoryError> {
        match &self.pages {
            Pages::Own(words) => Ok(words),
            Pages::Mapped(mapping) if mapping.is_writable() => Ok(mapping.words()),
            Pages::Mapped(_) | Pages::Frozen(_) => Err(MemoryError::ReadOnly),
        }
    }
}

/// The address of a memory's bytes, to be passed to other languages without a copy. They stay mapped as long as this lives, whatever happens to the memory.
///
/// Others may change the bytes at any time: read them through the address as if they were volatile, and never assume that a second read gives the same value.
#[derive(Clone, Debug)]
pub struct View {
    bytes: u64,
    mapping: Arc<Mapping>,
}

impl View {
    /// The address of the first byte, which is page-aligned.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        NonNull::from(self.mapping.words()).cast()
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the bytes may be written; if not, a write faults.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.mapping.is_writable()
    }

    /// Whether these are still the pages of `memory`.
    #[must_use]
    pub fn is_of(&self, memory: &Memory) -> bool {
        matches!(&memory.pages, Pages::Mapped(mapping) if Arc::ptr_eq(mapping, &self.mapping))
    }
}

fn no_room() -> MemoryError {
    MemoryError::System(io::ErrorKind::OutOfMemory.into())
}
