//! What a panic leaves behind: its place and its message, for the host that asks for them after the trap.

use std::{
    cell::RefCell,
    panic::{self, PanicHookInfo},
};

use crate::io::packed;

thread_local! {
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on panics are noted. Every event may begin a memory in which they are not.
pub(crate) fn listen() {
    // A function has no size: nothing is allocated for it.
    panic::set_hook(Box::new(note));
}

/// The place comes first: the host reads the beginning of what is long.
fn note(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("without a message");
    let words = match info.location() {
        Some(place) => format!("panicked at {}:{}: {message}", place.file(), place.line()),
        None => format!("panicked: {message}"),
    };
    WORDS.with(|noted| {
        if let Ok(mut noted) = noted.try_borrow_mut() {
            *noted = words;
        }
    });
}

/// `catena_last_words`: of length 0 if there was no panic.
pub fn last_words() -> u64 {
    WORDS.with(|noted| noted.try_borrow().map_or(0, |noted| packed(noted.as_bytes())))
}
