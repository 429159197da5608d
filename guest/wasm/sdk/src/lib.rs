//! Chain functions in Rust: an `async fn` whose every awaited [`call`] moves it to the service called.
//!
//! ```ignore
//! use catena_guest_sdk::{Exception, call, function};
//!
//! function!(greet);
//!
//! async fn greet(name: String) -> Result<String, Exception> {
//!     let title: String = call("people/title", &name).await?;
//!     Ok(format!("Dear {title} {name}"))
//! }
//! ```
//!
//! Values are CBOR, by minicbor. Between two awaits nothing of the function is on the stack, so its whole state lies in its memory,
//! and travels. [`split`] forks a function, and each branch goes its own way. [`replies`] is for
//! calls that are answered many times. Functions that would rather hand a small state over themselves use [`step!`](crate::step).

mod allocator;
mod call;
mod exception;
mod executor;
mod explicit;
mod io;
mod last_words;
mod raw;
mod replies;
mod split;

pub use call::{Call, call};
pub use exception::Exception;
pub use executor::{emit, log, seed, started_at_ms};
pub use explicit::{Step, done, next, threw};
pub use raw::Raw;
pub use replies::{Ended, Missing, ReplySet, replies};
pub use split::{Branch, Settled, Split, branch, split};

#[doc(hidden)]
pub mod export {
    //! What the macros call.
    pub use crate::{
        executor::{resume, start},
        explicit::step,
        io::{alloc, inbox, scratch, settle},
        last_words::last_words,
    };
}

/// Splits `service/function` at the last slash.
#[must_use]
pub fn split_target(target: &str) -> (&str, &str) {
    target.rsplit_once('/').unwrap_or((target, ""))
}

/// Makes an `async fn(Input) -> Result<Output, Exception>` the module's chain function.
#[macro_export]
macro_rules! function {
    ($function:path) => {
        $crate::__exports!();

        #[unsafe(no_mangle)]
        extern "C" fn catena_start(_place: u32, length: u32) -> u64 {
            $crate::export::start(length, $function)
        }

        #[unsafe(no_mangle)]
        extern "C" fn catena_resume(_place: u32, length: u32) -> u64 {
            $crate::export::resume(length)
        }
    };
}

/// Makes a `fn(Option<State>, Result<Value, Exception>) -> Step` the module's chain function. No memory travels with it: only the
/// state that it returns.
#[macro_export]
macro_rules! step {
    ($function:path) => {
        $crate::__exports!();

        #[unsafe(no_mangle)]
        extern "C" fn catena_step(_place: u32, length: u32) -> u64 {
            $crate::export::step(length, $function)
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __exports {
    () => {
        #[unsafe(no_mangle)]
        extern "C" fn catena_abi_v1() {}

        #[unsafe(no_mangle)]
        extern "C" fn catena_alloc(length: u32) -> u32 {
            $crate::export::alloc(length)
        }

        #[unsafe(no_mangle)]
        extern "C" fn catena_inbox() -> u64 {
            $crate::export::inbox()
        }

        #[unsafe(no_mangle)]
        extern "C" fn catena_settle() {
            $crate::export::settle();
        }

        #[unsafe(no_mangle)]
        extern "C" fn catena_scratch() -> u32 {
            $crate::export::scratch()
        }

        #[unsafe(no_mangle)]
        extern "C" fn catena_last_words() -> u64 {
            $crate::export::last_words()
        }
    };
}
