//! Which pages of a guest's memory may differ from its image. The kernel is asked here; the contents are compared elsewhere.

mod faults;
mod kernel;
mod pagemap;
mod watch;

use std::{fs::File, ops::Range};

pub(crate) use watch::Watch;

/// Granularity of the comparison. Equal to the kernel's page size on every machine where the kernel is asked.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The addresses of a page.
pub(crate) fn page_range(page: u32) -> Range<u64> {
    let start = u64::from(page) * PAGE_BYTES as u64;
    start..start + PAGE_BYTES as u64
}

/// How the pages that may have changed are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFinder {
    /// The `PAGEMAP_SCAN` ioctl: Linux 6.7 and later.
    PagemapScan,
    /// Reading `/proc/self/pagemap`: older Linux.
    PagemapRead,
    /// Every page is compared: anywhere.
    Everything,
}

/// Finds changed pages in the best way that works on this machine.
#[derive(Debug)]
pub(crate) struct Pages {
    finder: PageFinder,
    pagemap: Option<File>,
    /// Whether a [`Watch`] can detect writes.
    watches: bool,
}

impl Pages {
    /// `wanted`, or the best way that this machine has.
    pub(crate) fn new(wanted: Option<PageFinder>) -> Option<Self> {
        let pagemap = File::open("/proc/self/pagemap").ok().filter(|_| rustix::param::page_size() == PAGE_BYTES);
        [PageFinder::PagemapScan, PageFinder::PagemapRead, PageFinder::Everything]
            .into_iter()
            .filter(|finder| wanted.is_none_or(|wanted| wanted == *finder))
            .find(|finder| works(*finder, pagemap.as_ref()))
            .map(|finder| Self { finder, pagemap, watches: Watch::works() })
    }

    /// Bytes of those pages found that lie among the first `len` bytes: none where it is not known which were written.
    pub(crate) fn bytes_among(&self, found: &[u32], len: usize) -> u64 {
        match self.finder {
            PageFinder::Everything => 0,
            PageFinder::PagemapScan | PageFinder::PagemapRead => {
                let count = found.partition_point(|page| (*page as usize) < len / PAGE_BYTES);
                (count * PAGE_BYTES) as u64
            }
        }
    }

    pub(crate) const fn finder(&self) -> PageFinder {
        self.finder
    }

    /// Sets `found` to the numbers of all pages of `memory` that may have been written since they were mapped, in order. It already holds those found before,
    /// which `watch` refers to. A page too many costs a comparison, but no page is ever missed: in any doubt, all are included.
    pub(crate) fn find(&self, memory: &[u8], watch: &mut Watch, found: &mut Vec<u32>) {
        if !watch.rules_out_more() {
            self.look(memory, found);
        }
        *watch = if self.watches { Watch::Found } else { Watch::Unknown };
    }

    /// The same, without a watch.
    pub(crate) fn look(&self, memory: &[u8], found: &mut Vec<u32>) {
        found.clear();
        let asked = match (self.finder, &self.pagemap) {
            (PageFinder::PagemapScan, Some(pagemap)) => kernel::scan(pagemap, memory, found),
            (PageFinder::PagemapRead, Some(pagemap)) => pagemap::read(pagemap, memory, found),
            _ => None,
        };
        if asked.is_none() {
            found.clear();
            found.extend(0..count(memory));
        }
    }
}

/// Pages in `memory`. A 32-bit memory has at most 2^20.
fn count(memory: &[u8]) -> u32 {
    u32::try_from(memory.len() / PAGE_BYTES).unwrap_or(u32::MAX)
}

/// Zeroed memory, large enough that it comes untouched from the kernel.
fn fresh() -> Vec<u8> {
    std::hint::black_box(vec![0; 64 << 20])
}

/// Tries a way of finding pages on memory whose state is known: one page untouched, one written, one zero page merely read.
fn works(finder: PageFinder, pagemap: Option<&File>) -> bool {
    if finder == PageFinder::Everything {
        return true;
    }
    let Some(pagemap) = pagemap else { return false };
    let mut probe = fresh();
    let skip = probe.as_ptr().align_offset(PAGE_BYTES);
    let Some(pages) = probe.get_mut(skip..skip + 62 * PAGE_BYTES) else {
        return false;
    };
    let (written, read) = ([3_u32, 4, 40], 20_u32);
    for page in written {
        if let Some(byte) = pages.get_mut(page as usize * PAGE_BYTES) {
            *byte = 1;
        }
    }
    // Prevents the compiler from optimising the accesses away: it does not know that the kernel examines the memory.
    std::hint::black_box(pages.get(read as usize * PAGE_BYTES).copied());
    std::hint::black_box(&mut *pages);
    let mut found = Vec::new();
    let asked = match finder {
        PageFinder::PagemapScan => kernel::scan(pagemap, pages, &mut found),
        _ => pagemap::read(pagemap, pages, &mut found),
    };
    asked.is_some() && written.iter().chain([&read]).all(|page| found.contains(page))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// The kernel may substitute the shared zero page for a page that a guest overwrote with zeros, although the image has other bytes there. Reading a page
    /// that was never written maps the zero page too.
    #[test]
    fn a_page_of_zeros_is_not_overlooked() {
        for finder in [PageFinder::PagemapScan, PageFinder::PagemapRead, PageFinder::Everything] {
            let pages = Pages::new(Some(finder)).unwrap();
            let memory = fresh();
            let memory = std::hint::black_box(&memory[memory.as_ptr().align_offset(PAGE_BYTES)..]);
            std::hint::black_box(memory[20 * PAGE_BYTES]);
            let mut found = Vec::new();
            pages.find(&memory[..64 * PAGE_BYTES], &mut Watch::default(), &mut found);
            assert!(found.contains(&20), "{finder:?}: {found:?}");
        }
    }
}
