//! `/proc/self/pagemap`: one word of flags for each page (Linux, Documentation/admin-guide/mm/pagemap.rst).

use std::{fs::File, os::unix::fs::FileExt};

use super::{PAGE_BYTES, count};

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Still the page of the file (or memfd) that was mapped, and so unchanged.
const FILE: u64 = 1 << 61;

/// Appends the pages of `memory` that are private. `None` if the kernel does not say.
pub(super) fn read(pagemap: &File, memory: &[u8], found: &mut Vec<u32>) -> Option<()> {
    let mut words = [0_u8; 4096];
    let first = (memory.as_ptr().addr() / PAGE_BYTES) as u64;
    let pages = count(memory);
    let mut page = 0;
    while page < pages {
        let wanted = ((pages - page) as usize).min(words.len() / 8) * 8;
        let words = words.get_mut(..wanted)?;
        pagemap.read_exact_at(words, (first + u64::from(page)) * 8).ok()?;
        for word in words.chunks_exact(8) {
            let flags = u64::from_ne_bytes(word.try_into().ok()?);
            if flags & (PRESENT | SWAPPED) != 0 && flags & FILE == 0 {
                found.push(page);
            }
            page += 1;
        }
    }
    Some(())
}
