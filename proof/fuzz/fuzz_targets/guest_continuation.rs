#![no_main]

#[path = "../bodies/guest_continuation.rs"]
mod guest_continuation;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| guest_continuation::lay(bytes));
