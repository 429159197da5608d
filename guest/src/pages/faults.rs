//! How many page faults the calling thread has had (`getrusage(2)`, `RUSAGE_THREAD`).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// With and without input or output. The kernel counts a fault in the thread that had it, whether the thread was in its own code or
/// in the kernel's. `None` if the kernel would not say.
pub(super) fn count() -> Option<[i64; 2]> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `getrusage` writes a `struct rusage` to where it is told, which is room for one and nobody else's.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it says that it has written it.
    let usage = (failed == 0).then(|| unsafe { usage.assume_init() })?;
    Some([usage.ru_majflt, usage.ru_minflt])
}
