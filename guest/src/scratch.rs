//! Scratch: the ranges of a guest's memory whose contents need not survive between turns (`ABI.md`).

use std::ops::Range;

use crate::pages::{PAGE_BYTES, page_range};

/// The most ranges that a guest may declare.
pub const SCRATCH_RANGES_MAX: usize = 256;

/// Sorted, disjoint, non-empty ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scratch(Vec<Range<u64>>);

/// Why a list of scratch ranges is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScratchError {
    /// The list runs out of the memory before its terminator.
    #[error("the scratch list at {address:#x} has no end within the memory")]
    Unterminated {
        /// Where the list begins.
        address: u32,
    },
    /// More than [`SCRATCH_RANGES_MAX`].
    #[error("more than {SCRATCH_RANGES_MAX} scratch ranges")]
    TooMany,
    /// A range leaves the memory.
    #[error("the scratch range at {start:#x} leaves the memory")]
    Outside {
        /// Start of the range.
        start: u32,
    },
    /// Two ranges overlap.
    #[error("two scratch ranges overlap at {start:#x}")]
    Overlap {
        /// Start of the later one.
        start: u64,
    },
}

impl Scratch {
    /// Takes ranges in any order.
    ///
    /// # Errors
    /// [`ScratchError::TooMany`] or [`ScratchError::Overlap`].
    pub fn new(mut ranges: Vec<Range<u64>>) -> Result<Self, ScratchError> {
        ranges.retain(|range| range.start < range.end);
        if ranges.len() > SCRATCH_RANGES_MAX {
            return Err(ScratchError::TooMany);
        }
        ranges.sort_by_key(|range| range.start);
        for pair in ranges.windows(2) {
            if let [before, after] = pair
                && before.end > after.start
            {
                return Err(ScratchError::Overlap { start: after.start });
            }
        }
        Ok(Self(ranges))
    }

    /// Reads the list at the address that `catena_scratch` returns.
    pub(crate) fn read(memory: &[u8], address: u32) -> Result<Self, ScratchError> {
        let unterminated = ScratchError::Unterminated { address };
        let list = memory.get(address as usize..).ok_or(unterminated)?;
        let mut ranges = Vec::new();
        for pair in list.chunks_exact(8) {
            let start = word(pair, 0);
            let length = word(pair, 4);
            if start == 0 && length == 0 {
                return Self::new(ranges);
            }
            let end = u64::from(start) + u64::from(length);
            if end > memory.len() as u64 {
                return Err(ScratchError::Outside { start });
            }
            if ranges.len() == SCRATCH_RANGES_MAX {
                return Err(ScratchError::TooMany);
            }
            ranges.push(u64::from(start)..end);
        }
        Err(unterminated)
    }

    /// Whether all of `range` lies in one range of scratch.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        self.from(range.start).first().is_some_and(|scratch| scratch.start <= range.start && range.end <= scratch.end)
    }

    /// The scratch ranges that end after `address`.
    fn from(&self, address: u64) -> &[Range<u64>] {
        let first = self.0.partition_point(|scratch| scratch.end <= address);
        self.0.get(first..).unwrap_or_default()
    }

    /// The parts of one page that travel: those outside scratch, as offsets in the page, in order.
    pub(crate) fn kept(&self, page: u32) -> impl Iterator<Item = Range<usize>> {
        let bytes = page_range(page);
        let mut at = bytes.start;
        let mut scratch = self.from(bytes.start).iter();
        std::iter::from_fn(move || {
            while at < bytes.end {
                let next = scratch.next().filter(|range| range.start < bytes.end);
                let (end, resume) = match next {
                    Some(range) => (range.start.max(at), range.end.min(bytes.end)),
                    None => (bytes.end, bytes.end),
                };
                let kept = at..end;
                at = resume;
                if kept.start < kept.end {
                    // Both lie within the page.
                    return Some((kept.start - bytes.start) as usize..(kept.end - bytes.start) as usize);
                }
            }
            None
        })
    }

    /// Whether no part of this page is scratch.
    pub(crate) fn spares(&self, page: u32) -> bool {
        let bytes = page_range(page);
        self.from(bytes.start).first().is_none_or(|scratch| bytes.end <= scratch.start)
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

const _: () = assert!(PAGE_BYTES.is_power_of_two());

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_kept_of_a_page_is_what_is_not_scratch() {
        let scratch = Scratch::new(vec![100..200, 4000..8192, 8200..8201]).unwrap();
        let kept = |page| scratch.kept(page).collect::<Vec<_>>();
        assert_eq!(kept(0), [0..100, 200..4000]);
        assert_eq!(kept(1), []);
        assert_eq!(kept(2), [0..8, 9..4096]);
        assert_eq!(kept(3).first(), Some(&(0..4096)));
        assert!(scratch.spares(3) && !scratch.spares(2));
    }

    #[test]
    fn lists_that_lie_are_refused() {
        let mut memory = vec![0; 64];
        assert_eq!(Scratch::read(&memory, 0).unwrap(), Scratch::default());
        memory[..4].copy_from_slice(&60_u32.to_le_bytes());
        memory[4..8].copy_from_slice(&5_u32.to_le_bytes());
        assert_eq!(Scratch::read(&memory, 0), Err(ScratchError::Outside { start: 60 }));
        assert_eq!(Scratch::read(&[1; 64], 0), Err(ScratchError::Outside { start: 0x0101_0101 }));
        assert_eq!(Scratch::read(&memory, 1000), Err(ScratchError::Unterminated { address: 1000 }));
        assert_eq!(Scratch::new(vec![5..9, 0..6]), Err(ScratchError::Overlap { start: 5 }));
    }
}
