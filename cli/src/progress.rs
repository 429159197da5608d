//! A sign of life on standard error, while something takes long and somebody watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// A spinner; shows nothing where standard error is no terminal. Goes away when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(output: &Output, what: &str) -> Self {
        if !output.err_tty || output.json {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Does something that writes, with the spinner out of the way.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
