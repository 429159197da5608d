//! The version, the codes, and the last error of each thread.
#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    ffi::{CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use catena::{Exception, exceptions as names};

/// The upper half rises when a program that was compiled before does not work any more, the lower one when something is new.
pub const CATENA_ABI_VERSION: u32 = (1 << 16) + 1;

/// It is done.
pub const CATENA_OK: i32 = 0;
/// An argument is not what it has to be: a null pointer, no UTF-8, a number that means nothing.
pub const CATENA_BAD_ARGUMENT: i32 = 1;
/// There is no such handle, or it is of another kind.
pub const CATENA_BAD_HANDLE: i32 = 2;
/// Nothing came in the time that was given.
pub const CATENA_TIMED_OUT: i32 = 3;
/// What there is is longer than the memory that was given for it; its length was set.
pub const CATENA_TOO_SMALL: i32 = 4;
/// An exception of Catena's: catena_last_error_name() says which.
pub const CATENA_EXCEPTION: i32 = 5;
/// The library itself is at fault.
pub const CATENA_PANICKED: i32 = 6;
/// As CATENA_EXCEPTION, and whether it was done is unknown.
pub const CATENA_UNKNOWN: i32 = 7;

thread_local! {
    static LAST: RefCell<(CString, CString)> = RefCell::default();
}

/// Why a function fails.
pub(crate) struct Failure {
    pub(crate) code: i32,
    name: String,
    message: String,
}

pub(crate) type Done<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: i32, name: &str, message: impl Into<String>) -> Self {
        Self { code, name: name.to_owned(), message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(CATENA_BAD_ARGUMENT, names::BAD_PARAMETERS, message)
    }
}

impl From<Exception> for Failure {
    fn from(why: Exception) -> Self {
        let code = if why.unknown { CATENA_UNKNOWN } else { CATENA_EXCEPTION };
        Self::new(code, &why.name, why.message)
    }
}

/// Does something for C: whatever goes wrong becomes a code, and the thread's last error.
pub(crate) fn guarded(work: impl FnOnce() -> Done) -> i32 {
    let done = catch_unwind(AssertUnwindSafe(work));
    let failure = match done {
        Ok(Ok(())) => return CATENA_OK,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(CATENA_PANICKED, "Panicked", "the library panicked: please report it"),
    };
    // Text from elsewhere may have zeros, where C's ends.
    let text = |text: String| CString::new(text.replace('\0', "?")).unwrap_or_default();
    let last = (text(failure.name), text(failure.message));
    // A thread that is ending has none any more.
    let _ = LAST.try_with(|kept| kept.replace(last));
    failure.code
}

/// The version of this interface: CATENA_ABI_VERSION of the header that it was compiled with. A program should check that the upper half is the one of its own header.
#[unsafe(no_mangle)]
pub extern "C" fn catena_abi_version() -> u32 {
    CATENA_ABI_VERSION
}

/// What the last call of this thread that failed says, for people: what happened, to what, and what to do next. It is valid until the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn catena_last_error() -> *const c_char {
    LAST.try_with(|kept| kept.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of that error, for programs: an exception's, as `UnknownSegment`. It is valid until the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn catena_last_error_name() -> *const c_char {
    LAST.try_with(|kept| kept.borrow().0.as_ptr()).unwrap_or(c"".as_ptr())
}
