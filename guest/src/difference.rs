//! The difference of two memories, as runs of bytes.

use std::ops::Range;

use crate::{pages::PAGE_BYTES, scratch::Scratch};

/// One page of memory.
pub(crate) type Page = [u8; PAGE_BYTES];

/// Fewer equal bytes than this between two runs are included in one run: a run of its own would cost two bytes and a copy.
const GAP_BYTES: usize = 4;
const WORD_BYTES: usize = 8;
/// Bytes compared at once; the compiler vectorises the loop over the words of a block.
const BLOCK_BYTES: usize = 64;

/// What the image holds at a page.
pub(crate) trait Expected {
    /// The page's bytes.
    fn page(&self, page: u32) -> &Page;
}

/// The result of a comparison.
#[derive(Default)]
pub(crate) struct Difference {
    /// The byte ranges to be sent: sorted, disjoint, none across the end of a page.
    pub(crate) runs: Vec<Range<u32>>,
    /// Total length of the runs.
    pub(crate) bytes: u64,
}

/// Compares `pages` of `memory`, except scratch, with the image's bytes. `false`: the runs exceed `bytes_max` in total, and the comparison stopped there.
pub(crate) fn compare(
    memory: &[u8],
    pages: &[u32],
    expected: &impl Expected,
    scratch: &Scratch,
    bytes_max: u64,
    found: &mut Difference,
) -> bool {
    for &page in pages {
        if found.bytes > bytes_max {
            return false;
        }
        let start = page as usize * PAGE_BYTES;
        let Some(held) = memory.get(start..).and_then(|rest| rest.first_chunk::<PAGE_BYTES>()) else {
            continue;
        };
        let image = expected.page(page);
        if scratch.spares(page) {
            if held != image {
                compare_part(held, image, 0..PAGE_BYTES, page, found);
            }
            continue;
        }
        for part in scratch.kept(page) {
            compare_part(held, image, part, page, found);
        }
    }
    found.bytes <= bytes_max
}

/// Puts the image's bytes back in the scratch parts of `pages`.
pub(crate) fn restore_scratch(memory: &mut [u8], pages: &[u32], expected: &impl Expected, scratch: &Scratch) {
    for &page in pages.iter().filter(|page| !scratch.spares(**page)) {
        let start = page as usize * PAGE_BYTES;
        let Some(held) = memory.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<PAGE_BYTES>()) else {
            continue;
        };
        let image = expected.page(page);
        let mut end_before = 0;
        for part in scratch.kept(page) {
            copy(held, image, end_before..part.start);
            end_before = part.end;
        }
        copy(held, image, end_before..PAGE_BYTES);
    }
}

/// Puts the image's bytes back where the runs are.
pub(crate) fn restore(memory: &mut [u8], runs: &[Range<u32>], expected: &impl Expected) {
    for run in runs {
        let (start, end) = (run.start as usize, run.end as usize);
        let page = run.start / PAGE_BYTES as u32;
        let offset = start % PAGE_BYTES;
        let image = expected.page(page).get(offset..offset + (end - start));
        if let (Some(target), Some(image)) = (memory.get_mut(start..end), image) {
            target.copy_from_slice(image);
        }
    }
}

fn copy(to: &mut Page, from: &Page, range: Range<usize>) {
    if let (Some(to), Some(from)) = (to.get_mut(range.clone()), from.get(range)) {
        to.copy_from_slice(from);
    }
}

/// Compares a part of a page, in whole blocks and the remainders at both ends.
fn compare_part(held: &Page, image: &Page, part: Range<usize>, page: u32, found: &mut Difference) {
    let mut runs = Runs { base: page * PAGE_BYTES as u32, open: None, found };
    let mut at = part.start;
    while at < part.end {
        // Up to the next block boundary, so that only the ends are less than whole blocks.
        let end = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(part.end);
        if let (Some(held), Some(image)) = (held.get(at..end), image.get(at..end)) {
            compare_block(held, image, at, &mut runs);
        }
        at = end;
    }
    runs.close();
}

#[inline]
fn compare_block(held: &[u8], image: &[u8], at: usize, runs: &mut Runs<'_>) {
    if let (Ok(held), Ok(image)) = (<&[u8; BLOCK_BYTES]>::try_from(held), <&[u8; BLOCK_BYTES]>::try_from(image)) {
        if held == image {
            return;
        }
        let words = held.as_chunks::<WORD_BYTES>().0.iter().zip(image.as_chunks::<WORD_BYTES>().0);
        for (index, (held, image)) in words.enumerate() {
            let differing = u64::from_le_bytes(*held) ^ u64::from_le_bytes(*image);
            if differing != 0 {
                let first = differing.trailing_zeros() as usize / 8;
                let last = WORD_BYTES - 1 - differing.leading_zeros() as usize / 8;
                let start = at + index * WORD_BYTES;
                runs.add(start + first, start + last + 1);
            }
        }
        return;
    }
    for (index, (held, image)) in held.iter().zip(image).enumerate() {
        if held != image {
            runs.add(at + index, at + index + 1);
        }
    }
}

/// Collects the runs of one page, joining those with a small gap between them.
struct Runs<'a> {
    base: u32,
    open: Option<(usize, usize)>,
    found: &'a mut Difference,
}

impl Runs<'_> {
    #[inline]
    fn add(&mut self, start: usize, end: usize) {
        match &mut self.open {
            Some((_, open_end)) if start - *open_end < GAP_BYTES => *open_end = end,
            _ => {
                self.close();
                self.open = Some((start, end));
            }
        }
    }

    fn close(&mut self) {
        if let Some((start, end)) = self.open.take() {
            // Both are offsets within a page.
            self.found.runs.push(self.base + start as u32..self.base + end as u32);
            self.found.bytes += (end - start) as u64;
        }
    }
}
