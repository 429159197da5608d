//! The bytes of a continuation: the difference between a guest's memory and its image (`ABI.md`, "The continuation").
//!
//! Everything here is a pure function of byte slices. A continuation comes from a peer, so it is checked completely before any byte of it is used, and every
//! way in which it can be malformed has a name.

use std::ops::Range;

use crate::{leb, scratch::Scratch};

/// Version of a continuation that carries memory.
pub const VERSION_MEMORY: u8 = 1;
/// Bytes of the image's digest that a continuation begins with.
pub const DIGEST_BYTES: usize = 8;
/// WebAssembly's page: the unit of memory sizes.
pub const WASM_PAGE_BYTES: u64 = 65_536;

/// The shape that a continuation must fit.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Identifies the image.
    pub digest: [u8; DIGEST_BYTES],
    /// Size of the image's memory, in pages of 64 KiB: a continuation has at least as much.
    pub memory_pages: u32,
    /// The most that this node grants, in pages of 64 KiB.
    pub memory_pages_max: u32,
    /// For each mutable global, whether it has 64 bits; else it has 32.
    pub globals_wide: &'a [bool],
    /// Ranges that no run may touch.
    pub scratch: &'a Scratch,
}

/// Why a continuation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Of another version of this format.
    #[error("its version is {version}, and this image takes {expected}")]
    Version {
        /// What it says.
        version: u8,
        /// What was expected.
        expected: u8,
    },
    /// Taken from another image: another function, engine or build.
    #[error("it belongs to another image")]
    OtherImage,
    /// It ends too early, or an integer is too long.
    #[error("it is cut short or malformed at byte {at_bytes}")]
    Malformed {
        /// Bytes before the fault.
        at_bytes: usize,
    },
    /// Bytes follow its end.
    #[error("bytes follow its end at byte {at_bytes}")]
    Trailing {
        /// Length of the continuation itself.
        at_bytes: usize,
    },
    /// Its memory is smaller than the image's.
    #[error("its memory of {pages} pages is smaller than its image's")]
    MemoryTooSmall {
        /// Pages of 64 KiB.
        pages: u32,
    },
    /// Its memory is larger than this node grants.
    #[error("its memory of {pages} pages is beyond this node's limit of {pages_max}")]
    MemoryTooLarge {
        /// Pages of 64 KiB.
        pages: u32,
        /// This node's limit, in the same unit.
        pages_max: u32,
    },
    /// Not as many globals as the image has, or one too wide for its type.
    #[error("its globals are not those of its image")]
    Globals,
    /// A run is empty, or leaves the memory.
    #[error("a run at {start:#x} is empty or leaves the memory")]
    RunOutside {
        /// Address of the run.
        start: u64,
    },
    /// A run overlaps memory that never travels.
    #[error("a run at {start:#x} overlaps scratch memory")]
    RunInScratch {
        /// Address of the run.
        start: u64,
    },
}

/// A continuation that was checked against the shape of its image.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'b> {
    /// Size that the memory must have, in pages of 64 KiB.
    pub memory_pages: u32,
    globals: &'b [u8],
    runs: &'b [u8],
}

impl<'b> Checked<'b> {
    /// Checks all of `bytes`.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn new(shape: &Shape<'_>, bytes: &'b [u8]) -> Result<Self, Refusal> {
        let mut rest = bytes;
        let malformed = |rest: &[u8]| Refusal::Malformed { at_bytes: bytes.len() - rest.len() };
        take_head(&mut rest, VERSION_MEMORY, shape.digest)?;
        let memory_pages = leb::take_u32(&mut rest).ok_or_else(|| malformed(rest))?;
        check_memory(shape, memory_pages)?;
        let globals_count = leb::take(&mut rest).ok_or_else(|| malformed(rest))?;
        if globals_count != shape.globals_wide.len() as u64 {
            return Err(Refusal::Globals);
        }
        let (globals, after) = rest.split_at_checked(shape.globals_wide.len() * 8).ok_or_else(|| malformed(rest))?;
        check_globals(shape, globals)?;
        rest = after;
        let runs = rest;
        let memory_bytes = u64::from(memory_pages) * WASM_PAGE_BYTES;
        check_runs(&mut rest, memory_bytes, shape.scratch).map_err(|fault| fault.unwrap_or_else(|| malformed(rest)))?;
        if !rest.is_empty() {
            return Err(Refusal::Trailing { at_bytes: bytes.len() - rest.len() });
        }
        Ok(Self { memory_pages, globals, runs })
    }

    /// The globals' bits, in the order of the image's mutable globals.
    pub fn globals(&self) -> impl Iterator<Item = u64> + 'b {
        self.globals.chunks_exact(8).map(|bits| bits.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Writes the runs into `memory`, which holds the image and has [`Self::memory_pages`].
    pub fn lay(&self, memory: &mut [u8]) {
        lay_runs(self.runs, memory);
    }
}

/// Checks the version and the digest, and moves past them.
pub(crate) fn take_head(rest: &mut &[u8], expected: u8, digest: [u8; DIGEST_BYTES]) -> Result<(), Refusal> {
    let Some((&version, after)) = rest.split_first() else {
        return Err(Refusal::Malformed { at_bytes: 0 });
    };
    if version != expected {
        return Err(Refusal::Version { version, expected });
    }
    let Some((found, after)) = after.split_first_chunk::<DIGEST_BYTES>() else {
        return Err(Refusal::Malformed { at_bytes: 1 });
    };
    if *found != digest {
        return Err(Refusal::OtherImage);
    }
    *rest = after;
    Ok(())
}

fn check_memory(shape: &Shape<'_>, pages: u32) -> Result<(), Refusal> {
    if pages < shape.memory_pages {
        return Err(Refusal::MemoryTooSmall { pages });
    }
    if pages > shape.memory_pages_max {
        return Err(Refusal::MemoryTooLarge { pages, pages_max: shape.memory_pages_max });
    }
    Ok(())
}

fn check_globals(shape: &Shape<'_>, globals: &[u8]) -> Result<(), Refusal> {
    let narrow = shape.globals_wide.iter().zip(globals.chunks_exact(8));
    for (wide, bits) in narrow {
        if !wide && bits.get(4..) != Some(&[0; 4]) {
            return Err(Refusal::Globals);
        }
    }
    Ok(())
}

/// Walks the runs without writing. `Err(None)`: cut short where `rest` stands.
fn check_runs(rest: &mut &[u8], memory_bytes: u64, scratch: &Scratch) -> Result<(), Option<Refusal>> {
    let count = leb::take_u32(rest).ok_or(None)?;
    let mut at = 0_u64;
    let mut scratch = scratch.ranges().iter().peekable();
    for _ in 0..count {
        let start = at + u64::from(leb::take_u32(rest).ok_or(None)?);
        let length = leb::take_u32(rest).ok_or(None)?;
        let end = start + u64::from(length);
        if length == 0 || end > memory_bytes {
            return Err(Some(Refusal::RunOutside { start }));
        }
        while scratch.next_if(|range| range.end <= start).is_some() {}
        if scratch.peek().is_some_and(|range| range.start < end) {
            return Err(Some(Refusal::RunInScratch { start }));
        }
        *rest = rest.get(length as usize..).ok_or(None)?;
        at = end;
    }
    Ok(())
}

/// Writes runs (count, then gap, length and bytes of each) that were checked before. What does not fit is left out.
fn lay_runs(mut runs: &[u8], memory: &mut [u8]) {
    let count = leb::take_u32(&mut runs).unwrap_or(0);
    let mut at = 0_usize;
    for _ in 0..count {
        let Some(run) = next_run(&mut runs, &mut at) else {
            return;
        };
        let (range, bytes) = run;
        if let Some(target) = memory.get_mut(range) {
            target.copy_from_slice(bytes);
        }
    }
}

/// One run: where it belongs, and its bytes. `at` is the end of the run before.
fn next_run<'r>(runs: &mut &'r [u8], at: &mut usize) -> Option<(Range<usize>, &'r [u8])> {
    let start = *at + leb::take_u32(runs)? as usize;
    let length = leb::take_u32(runs)? as usize;
    let (bytes, rest) = runs.split_at_checked(length)?;
    *runs = rest;
    *at = start + length;
    Some((start..*at, bytes))
}

/// Checks `bytes` against a memory of `memory.len()` bytes and lays them over it: the whole way from a peer's bytes to a
/// guest's memory, for tests and fuzzing. `memory` may be larger than the continuation says; it must not be smaller.
///
/// # Errors
/// See [`Refusal`]; `memory` is then untouched.
pub fn apply(shape: &Shape<'_>, bytes: &[u8], memory: &mut [u8]) -> Result<(), Refusal> {
    let checked = Checked::new(shape, bytes)?;
    let pages_max = u32::try_from(memory.len() as u64 / WASM_PAGE_BYTES).unwrap_or(u32::MAX);
    if checked.memory_pages > pages_max {
        return Err(Refusal::MemoryTooLarge { pages: checked.memory_pages, pages_max });
    }
    checked.lay(memory);
    Ok(())
}

/// Writes the head of a continuation: everything before its runs.
pub(crate) fn put_head(
    out: &mut Vec<u8>,
    digest: [u8; DIGEST_BYTES],
    memory_pages: u32,
    globals: impl ExactSizeIterator<Item = u64>,
) {
    out.push(VERSION_MEMORY);
    out.extend_from_slice(&digest);
    leb::put(out, u64::from(memory_pages));
    leb::put(out, globals.len() as u64);
    for bits in globals {
        out.extend_from_slice(&bits.to_le_bytes());
    }
}

/// Writes runs: `ranges` are sorted and disjoint parts of `memory`.
pub(crate) fn put_runs(out: &mut Vec<u8>, ranges: &[Range<u32>], memory: &[u8]) {
    leb::put(out, ranges.len() as u64);
    let mut at = 0;
    for range in ranges {
        leb::put(out, u64::from(range.start - at));
        leb::put(out, u64::from(range.end - range.start));
        if let Some(bytes) = memory.get(range.start as usize..range.end as usize) {
            out.extend_from_slice(bytes);
        }
        at = range.end;
    }
}
