//! The exceptions in the end of a right, where they are too large to be sent or kept: they are left out, and only that is said.

use alloc::format;
use catena_wire::{Delegated, Exception, Fate, RightEnd, names};

/// The most bytes of the exception with which a delegated call failed: it may be another node's, and is kept with the right.
const FAILED_BYTES_MAX: usize = 1_024;

/// Bytes of memory that the exceptions of an end take, and the targets of its calls.
pub(super) fn kept_bytes(end: &RightEnd) -> usize {
    let threw = end.threw.as_ref().map_or(0, Exception::kept_bytes);
    let of_delegated = |delegated: &Delegated| {
        let failed = if let Fate::Failed(why) = &delegated.fate { why.kept_bytes() } else { 0 };
        delegated.target.len() + failed
    };
    threw + end.delegated.iter().map(of_delegated).sum::<usize>()
}

/// Leaves out what the exceptions of an end say. `because` says why.
pub(super) fn leave_out(end: &mut RightEnd, because: &str) {
    let failed = end.delegated.iter_mut().filter_map(|delegated| match &mut delegated.fate {
        Fate::Failed(why) => Some(why),
        Fate::Taken(_) => None,
    });
    failed.chain(&mut end.threw).for_each(|why| *why = left_out(why, because));
}

/// Why a delegated call failed, as far as there is room for it.
pub(super) fn bounded(why: Exception) -> Exception {
    match why.kept_bytes() {
        0..=FAILED_BYTES_MAX => why,
        bytes => left_out(&why, &format!("it has {bytes} bytes, where one may have {FAILED_BYTES_MAX}")),
    }
}

fn left_out(why: &Exception, because: &str) -> Exception {
    let message = format!("what this exception said was left out: {because}; throw with smaller parameters");
    Exception { unknown: why.unknown, ..Exception::new(names::LIMIT_EXCEEDED, why.fault, message) }
}
