//! What loading a function changed in its engine's memory, as kept while the function is cached: only the bytes that differ.
//!
//! A loaded function consists of small blocks of bytecode whose fields are mostly small numbers and pointers: half of the bytes in a changed word of eight are
//! still zero. Runs of bytes, as in continuations, cost two bytes for each gap and include short gaps; masks cost one bit for each byte. This is laid over the
//! engine's memory only once for each new instance, so density matters more than speed. The encoding, for each block of 64 bytes that differs, in order of
//! address:
//!
//! ```text
//! gap since the block before, in blocks (LEB128) | mask of its words | per word: mask of its bytes | those bytes
//! ```

use crate::{
    base::Base,
    difference::{Expected, Page},
    leb,
    pages::PAGE_BYTES,
};

const BLOCK_BYTES: usize = 64;
const WORD_BYTES: usize = 8;
const BLOCKS_PER_PAGE: usize = PAGE_BYTES / BLOCK_BYTES;

/// Bytes by address, each of which differs from the base.
#[derive(Default)]
pub(crate) struct Kept(Box<[u8]>);

/// The bytes of one block.
pub(crate) struct Block<'k> {
    /// Number of the block in memory.
    number: usize,
    words: u8,
    /// For each word, the mask of its bytes, and those bytes.
    content: &'k [u8],
}

impl Kept {
    /// The difference from `base` in `pages`, which are sorted; scratch in `memory` must already hold the base's bytes.
    pub(crate) fn new(memory: &[u8], pages: &[u32], base: &Base) -> Self {
        let mut out = Vec::with_capacity(pages.len() * 512);
        let mut next = 0;
        for &page in pages {
            let start = page as usize * PAGE_BYTES;
            let Some(held) = memory.get(start..).and_then(|rest| rest.first_chunk::<PAGE_BYTES>()) else {
                continue;
            };
            let expected = base.page(page);
            if held == expected {
                continue;
            }
            let blocks = held.as_chunks::<BLOCK_BYTES>().0.iter().zip(expected.as_chunks::<BLOCK_BYTES>().0);
            for (number, (held, expected)) in (page as usize * BLOCKS_PER_PAGE..).zip(blocks) {
                if held != expected {
                    leb::put(&mut out, (number - next) as u64);
                    put_block(&mut out, held, expected);
                    next = number + 1;
                }
            }
        }
        Self(out.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the bytes into `memory`, which must hold the base's.
    pub(crate) fn lay(&self, memory: &mut [u8]) {
        for block in self.blocks() {
            block.lay(memory, block.number);
        }
    }

    /// Removes the bytes from `memory`: restores those of the base.
    pub(crate) fn clear(&self, memory: &mut [u8], base: &Base) {
        for block in self.blocks() {
            let expected = base.page(block.page()).as_chunks::<BLOCK_BYTES>().0.get(block.number % BLOCKS_PER_PAGE);
            if let (Some(target), Some(expected)) = (block_mut(memory, block.number), expected) {
                *target = *expected;
            }
        }
    }

    /// The blocks, in order of address.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let (mut rest, mut next) = (self.bytes(), 0);
        std::iter::from_fn(move || {
            let number = next + leb::take_u32(&mut rest)? as usize;
            let (&words, content) = rest.split_first()?;
            let mut after = content;
            for _ in 0..words.count_ones() {
                let (mask, bytes) = after.split_first()?;
                after = bytes.get(mask.count_ones() as usize..)?;
            }
            (rest, next) = (after, number + 1);
            Some(Block { number, words, content })
        })
    }
}

fn block_mut(memory: &mut [u8], number: usize) -> Option<&mut [u8; BLOCK_BYTES]> {
    memory.as_chunks_mut::<BLOCK_BYTES>().0.get_mut(number)
}

fn put_block(out: &mut Vec<u8>, held: &[u8; BLOCK_BYTES], expected: &[u8; BLOCK_BYTES]) {
    // The mask of words, and for each word its mask and its bytes. Built in a buffer, because growing `out` byte by byte is slower.
    let mut block = [0; 1 + BLOCK_BYTES / WORD_BYTES * (1 + WORD_BYTES)];
    let (mut words, mut len) = (0, 1);
    let mut push = |byte| {
        if let Some(place) = block.get_mut(len) {
            *place = byte;
            len += 1;
        }
    };
    let pairs = held.as_chunks::<WORD_BYTES>().0.iter().zip(expected.as_chunks::<WORD_BYTES>().0);
    for (word, (held, expected)) in pairs.enumerate() {
        let mask = differing(*held, *expected);
        if mask != 0 {
            words |= 1 << word;
            push(mask);
            set_bits(mask).filter_map(|byte| held.get(byte)).for_each(|byte| push(*byte));
        }
    }
    block[0] = words;
    out.extend_from_slice(block.get(..len).unwrap_or_default());
}

/// A bit for each byte in which two words differ.
fn differing(held: [u8; WORD_BYTES], expected: [u8; WORD_BYTES]) -> u8 {
    let mut bits = u64::from_le_bytes(held) ^ u64::from_le_bytes(expected);
    // Each byte's bits are combined in its lowest bit; the multiplication gathers these in the highest byte, without carries.
    bits |= bits >> 4;
    bits |= bits >> 2;
    bits |= bits >> 1;
    bits &= 0x0101_0101_0101_0101;
    (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

impl Block<'_> {
    /// The number of the page that contains it.
    pub(crate) fn page(&self) -> u32 {
        // A 32-bit memory has 2^20 pages.
        u32::try_from(self.number / BLOCKS_PER_PAGE).unwrap_or(u32::MAX)
    }

    /// Writes its bytes into a copy of that page.
    pub(crate) fn lay_in_page(&self, page: &mut Page) {
        self.lay(page, self.number % BLOCKS_PER_PAGE);
    }

    fn lay(&self, memory: &mut [u8], number: usize) {
        let Some(target) = block_mut(memory, number) else {
            return;
        };
        let mut content = self.content;
        for word in set_bits(self.words) {
            let (Some((&mask, rest)), Some(target)) =
                (content.split_first(), target.as_chunks_mut::<WORD_BYTES>().0.get_mut(word))
            else {
                return;
            };
            for (byte, value) in set_bits(mask).zip(rest) {
                // The mask tells the compiler that the index is below eight.
                if let Some(target) = target.get_mut(byte % WORD_BYTES) {
                    *target = *value;
                }
            }
            content = rest.get(mask.count_ones() as usize..).unwrap_or_default();
        }
    }
}

/// The numbers of the bits that are set, lowest first.
fn set_bits(mut mask: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::base::{Patched, Reset};
    use proptest::prelude::*;

    const PAGES: u32 = 6;

    /// A memory that differs from `base` at some addresses, often close together.
    fn changed(base: &[u8], changes: &[(u16, u8)]) -> Vec<u8> {
        let mut memory = base.to_vec();
        for (address, value) in changes {
            let len = memory.len();
            memory[usize::from(*address) % len] = *value;
        }
        memory
    }

    proptest! {
        #[test]
        fn what_is_kept_turns_the_base_into_the_memory_and_back(
            base in prop::collection::vec(0_u8..3, (PAGES as usize - 2) * PAGE_BYTES),
            changes in prop::collection::vec((any::<u16>(), 0_u8..3), 0..200),
            dense in prop::collection::vec((0_u16..300, any::<u8>()), 0..200),
        ) {
            let known = Base::new(&base);
            // The memory has grown since.
            let mut grown = base;
            grown.resize(PAGES as usize * PAGE_BYTES, 0);
            let memory = changed(&changed(&grown, &changes), &dense);
            let all: Vec<u32> = (0..PAGES).collect();
            let kept = Kept::new(&memory, &all, &known);

            let mut laid = grown.clone();
            kept.lay(&mut laid);
            prop_assert!(laid == memory, "laid over the base");

            let patched = Patched::new(&known, &kept);
            let image = Reset { base: &known, patched: &patched };
            for page in all {
                let held = &memory[page as usize * PAGE_BYTES..][..PAGE_BYTES];
                prop_assert!(image.page(page) == held, "page {page}");
            }

            kept.clear(&mut laid, &known);
            prop_assert!(laid == grown, "taken out again");
            let bytes = memory.iter().zip(&grown).filter(|(held, before)| held != before).count();
            prop_assert!(kept.bytes().len() <= bytes * 5, "{} for {bytes}", kept.bytes().len());
        }
    }

    #[test]
    fn nothing_is_kept_of_what_did_not_change() {
        let memory = vec![7; 2 * PAGE_BYTES];
        let base = Base::new(&memory);
        assert!(Kept::new(&memory, &[0, 1], &base).bytes().is_empty());
        assert_eq!(Kept::new(&[&[8][..], &memory[1..]].concat(), &[0, 1], &base).bytes(), [0, 1, 1, 8]);
    }
}
