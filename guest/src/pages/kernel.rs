//! The `PAGEMAP_SCAN` ioctl (Linux 6.7, Documentation/admin-guide/mm/pagemap.rst).
#![allow(unsafe_code)]

use rustix::ioctl::{self, Opcode, Updater, opcode};
use std::fs::File;

use super::PAGE_BYTES;

const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;

/// `struct page_region`: an address range, and the categories that its pages share.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_count: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_mask: u64,
    return_mask: u64,
}

const PAGEMAP_SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);
/// The most regions that one call returns; more take another call.
const REGIONS: usize = 128;

/// Appends the pages of `memory` that are private: no longer those of the file mapped there. The shared zero page counts as private, since the kernel may
/// substitute it for a page that was overwritten with zeros. `None` if the kernel does not say.
pub(super) fn scan(pagemap: &File, memory: &[u8], found: &mut Vec<u32>) -> Option<()> {
    let mut regions = [Region::default(); REGIONS];
    let base = memory.as_ptr().addr() as u64;
    let end = base + memory.len() as u64;
    let mut start = base;
    while start < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            regions: regions.as_mut_ptr().expose_provenance() as u64,
            regions_count: REGIONS as u64,
            pages_max: 0,
            category_inverted: FILE,
            category_mask: FILE,
            category_any_mask: PRESENT | SWAPPED,
            return_mask: PRESENT,
        };
        let count = call(pagemap, &mut scan)?;
        for region in regions.get(..count)? {
            let page = |address: u64| u32::try_from((address - base) / PAGE_BYTES as u64).ok();
            found.extend(page(region.start)?..page(region.end)?);
        }
        // Without progress this would loop for ever.
        if scan.walk_end <= start {
            return None;
        }
        start = scan.walk_end;
    }
    Some(())
}

fn call(pagemap: &File, scan: &mut Scan) -> Option<usize> {
    /// `Updater` discards the count that this ioctl returns.
    struct Counted<'a>(Updater<'a, PAGEMAP_SCAN, Scan>);

    // SAFETY: every method but `output_from_ptr` is `Updater`'s own; that one only reads the integer that the kernel returned.
    unsafe impl ioctl::Ioctl for Counted<'_> {
        type Output = usize;
        const IS_MUTATING: bool = true;
        fn opcode(&self) -> Opcode {
            self.0.opcode()
        }
        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            self.0.as_ptr().cast()
        }
        unsafe fn output_from_ptr(output: ioctl::IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<usize> {
            usize::try_from(output).map_err(|_| rustix::io::Errno::RANGE)
        }
    }

    // SAFETY: `PAGEMAP_SCAN` takes a `struct pm_scan_arg`, which `Scan` is, field for field, and says its own size. The kernel
    // writes to that struct and to `regions`, at most `regions_count` of them: both outlive the call and are borrowed by no
    // one else. The memory asked about is only looked up, never written (`flags` is 0).
    unsafe { ioctl::ioctl(pagemap, Counted(Updater::new(scan))) }.ok()
}
