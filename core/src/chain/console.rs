//! The virtual console (rpc-chains section 3.7): lines travel with the chain, some ahead of its end.

use alloc::{format, string::String, vec::Vec};
use catena_wire::{Branch, CONSOLE_LINES_MAX, LogLine, Message};

use super::activation::Activation;
use crate::{Policy, Receipt, ground::Ground};

const LEFT_OUT: &str = "(further lines are left out";

/// Adds lines to those that a chain carries, as long as there is room; one more says that others were left out.
///
/// Lines that are there are never changed: the last one may have been shown already.
pub(crate) fn extend(console: &mut Vec<LogLine>, lines: impl IntoIterator<Item = LogLine>, lines_max: usize) {
    for line in lines {
        if console.len() < lines_max {
            console.push(line);
            continue;
        }
        if console.last().is_some_and(|last| !last.text.starts_with(LEFT_OUT)) {
            let text = format!("{LEFT_OUT}: console_lines_max is {lines_max})");
            console.push(LogLine { text, ..line });
        }
        return;
    }
}

/// How many lines a call may bring back. One place is left for the line which says that others were left out.
pub(crate) fn lines_brought_max(policy: &Policy) -> usize {
    policy.console_lines_max.min(CONSOLE_LINES_MAX - 1)
}

/// Adds lines that the chain's function logged here.
pub(super) fn log(ground: &Ground, activation: &mut Activation, texts: Vec<String>) {
    let (step, at_us) = (activation.step, ground.unix_us());
    let line = |text| LogLine { step, node: ground.me.name.clone(), at_us, text, branch: Branch::root(), number: 0 };
    carry(ground, activation, step, texts.into_iter().map(line));
}

/// Adds lines to those of this chain, with its branch, its numbering and this step. Their node, time and text stay.
pub(super) fn carry(ground: &Ground, activation: &mut Activation, step: u32, lines: impl IntoIterator<Item = LogLine>) {
    let (console, branch) = (&mut activation.state.console, &activation.arrived.branch);
    let own = console.iter().rev().find(|line| line.branch == *branch);
    let mut next = own.map_or(0, |line| line.number.saturating_add(1));
    let own = |line: LogLine| {
        let number = next;
        next = next.saturating_add(1);
        LogLine { step, branch: branch.clone(), number, ..line }
    };
    extend(console, lines.into_iter().map(own), ground.policy.console_lines_max);
}

/// Sends the origin the lines that it has not been sent, as with each heartbeat, so that they outlive the chain.
pub(super) fn tell_lines(ground: &mut Ground, activation: &mut Activation) {
    let Some(lines) = untold(activation) else { return };
    let said = Message::Console(activation.key(), activation.state.console_told, lines);
    activation.state.console_told = u32::try_from(activation.state.console.len()).unwrap_or(u32::MAX);
    ground.send_home(&activation.state.header, said, Receipt::None);
}

/// Lines that this chain carries and that the origin has not been sent.
pub(super) fn untold(activation: &Activation) -> Option<Vec<LogLine>> {
    let lines = activation.state.console.get(activation.state.console_told as usize..)?;
    (!lines.is_empty()).then(|| lines.to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
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
        extend(&mut console, (0..5).map(line), 3);
        extend(&mut console, (3..5).map(line), 3);
        assert_eq!(texts(&console), [":0", ":1", ":2", "(further lines are left out: console_lines_max is 3)"]);
    }
}
