//! Log lines that a peer can cause, limited in rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind in one second.
const LINES_PER_S_MAX: u32 = 5;

/// Lets the first lines of each second pass, and counts the rest.
#[derive(Debug)]
pub struct LogLimit(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    since: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl LogLimit {
    /// For one kind of line; may be a static.
    pub const fn new() -> Self {
        Self(Mutex::new(Lines { since: None, said: 0, unsaid: 0 }))
    }

    /// Whether a line may be logged now; if so, how many were suppressed since the last.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            (lines.since, lines.said) = (Some(now), 0);
        }
        if lines.said == LINES_PER_S_MAX {
            lines.unsaid += 1;
            return None;
        }
        lines.said += 1;
        Some(std::mem::take(&mut lines.unsaid))
    }
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_lines_a_second_and_the_others_are_counted() {
        let (limit, now) = (LogLimit::new(), Instant::now());
        let said = |n: u32, at: Instant| (0..n).filter_map(|_| limit.pass_at(at)).collect::<Vec<_>>();
        assert_eq!(said(1_000, now), [0; 5]);
        assert_eq!(said(1_000, now + Duration::from_secs(1)), [995, 0, 0, 0, 0]);
    }
}
