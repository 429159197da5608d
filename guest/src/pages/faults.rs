//! How many page faults the calling thread has had (`getrusage(2)`, `RUSAGE_THREAD`).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Faults with and without I/O. The kernel counts a fault in the thread that caused it, whether in its own code or in the kernel's. `None` if the kernel does
/// not say.
pub(super) fn count() -> Option<[i64; 2]> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `getrusage` writes one `struct rusage` to the given address, where there is room for one that nobody else uses.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: the call succeeded, so the struct has been written.
    let usage = (failed == 0).then(|| unsafe { usage.assume_init() })?;
    Some([usage.ru_majflt, usage.ru_minflt])
}
