//! Lines that a chain has logged, within their bounds.

use alloc::{format, vec::Vec};
use core::fmt::Arguments;

use catena_wire::{CONSOLE_LINES_MAX, LogLine};

use crate::Policy;

const LEFT_OUT: &str = "(lines are left out";

/// Adds lines to those that a chain carries, as long as their number and their bytes stay within bounds; one last line says that others were left
/// out.
///
/// Existing lines are never changed: the last one may have been shown already.
pub(crate) fn extend(
    console: &mut Vec<LogLine>,
    lines: impl IntoIterator<Item = LogLine>,
    (lines_max, bytes_max): (usize, usize),
) {
    let mut bytes: usize = console.iter().map(LogLine::kept_bytes).sum();
    for line in lines {
        bytes = bytes.saturating_add(line.kept_bytes());
        if console.len() >= lines_max {
            return leave_out(console, line, format_args!("console_lines_max is {lines_max}"));
        }
        if bytes > bytes_max {
            return leave_out(console, line, format_args!("there is room for {bytes_max} bytes of them"));
        }
        console.push(line);
    }
}

/// How many lines a chain may carry, or a call bring back, and how many bytes of them. In a message one place is left for the line which says that others were
/// left out.
pub(crate) fn carried_max(policy: &Policy) -> (usize, usize) {
    (policy.console_lines_max.min(CONSOLE_LINES_MAX - 1), policy.console_bytes_max)
}

/// Says once, in place of this line, that there are more.
pub(crate) fn leave_out(console: &mut Vec<LogLine>, line: LogLine, why: Arguments<'_>) {
    if console.last().is_none_or(|last| !last.text.starts_with(LEFT_OUT)) {
        console.push(LogLine { text: format!("{LEFT_OUT}: {why})"), ..line });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use catena_wire::Branch;

    use super::*;

    fn line(number: u32) -> LogLine {
        LogLine { step: 0, node: "n".into(), at_us: 0, text: format!(":{number}"), branch: Branch::root(), number }
    }

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn one_more_line_says_that_others_are_left_out() {
        let mut console = Vec::new();
        extend(&mut console, (0..5).map(line), (3, usize::MAX));
        extend(&mut console, (3..5).map(line), (3, usize::MAX));
        assert_eq!(texts(&console), [":0", ":1", ":2", "(lines are left out: console_lines_max is 3)"]);
    }

    #[test]
    fn lines_are_few_bytes_as_well() {
        let (mut console, bytes) = (Vec::new(), line(0).kept_bytes());
        for from in [0, 2] {
            extend(&mut console, (from..5).map(line), (100, 3 * bytes));
        }
        let left_out = format!("(lines are left out: there is room for {} bytes of them)", 3 * bytes);
        assert_eq!(texts(&console), [":0", ":1", ":2", left_out.as_str()]);
        let mut console = Vec::new();
        extend(&mut console, [line(0)], (100, bytes - 1));
        assert_eq!(console.len(), 1, "also if it is the first");
        assert!(console[0].text.starts_with(LEFT_OUT));
    }
}
