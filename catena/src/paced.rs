//! Lines in the log that somebody else can cause: so many, and then one now and again that says how many were left out.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::shell::lock;

/// Lines of one place in the code within one [`WINDOW`].
const LINES_PER_WINDOW_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// What one place in the code may say.
pub(crate) struct Paced(Mutex<Window>);

struct Window {
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Paced {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Window { since: None, said: 0, left_out: 0 }))
    }

    /// Says it, with how many lines were left out before, unless this place has said enough for now.
    pub(crate) fn say(&self, line: impl FnOnce(u64)) {
        if let Some(left_out) = self.take(Instant::now()) {
            line(left_out);
        }
    }

    fn take(&self, now: Instant) -> Option<u64> {
        let mut window = lock(&self.0);
        if window.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            (window.since, window.said) = (Some(now), 0);
        }
        if window.said == LINES_PER_WINDOW_MAX {
            window.left_out += 1;
            return None;
        }
        window.said += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
#[path = "paced_tests.rs"]
mod tests;
