//! The virtual console (rpc-chains section 3.7): lines travel with the chain, some ahead of its end.

use alloc::{format, string::String, vec::Vec};
use catena_wire::{Branch, CONSOLE_LINES_MAX, LogLine, Message};

use super::{Activation, Chains};
use crate::{Policy, Receipt, SessionId, ground::Ground};

const LEFT_OUT: &str = "(further lines are left out";

/// Adds lines to those that a chain carries, as long as there is room; one more says that others were left out.
///
/// None is changed: the last that fitted may have been shown already.
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

/// Lines that a call may bring back: what follows them, saying that others were left out, has to fit as well.
pub(crate) fn lines_brought_max(policy: &Policy) -> usize {
    policy.console_lines_max.min(CONSOLE_LINES_MAX - 1)
}

impl Chains {
    /// Lines that the function of this session has said.
    pub(super) fn log(&mut self, ground: &Ground, session: SessionId, texts: Vec<String>) {
        if texts.is_empty() {
            return;
        }
        let (at_us, node) = (ground.unix_us(), ground.me.name.clone());
        let line = |text| LogLine { step: 0, node: node.clone(), at_us, text, branch: Branch::root(), number: 0 };
        let lines = texts.into_iter().map(line).collect();
        self.carry(ground, session, None, lines);
    }

    /// These become lines of the chain of this session, under its branch and its numbers: said at this step, or at the one
    /// where it is. Node, time and text stay.
    pub(super) fn carry(&mut self, ground: &Ground, session: SessionId, step: Option<u32>, lines: Vec<LogLine>) {
        let Some(activation) = self.get_mut(session).filter(|_| !lines.is_empty()) else { return };
        let (step, branch) = (step.unwrap_or(activation.step), activation.arrived.branch.clone());
        let console = &mut activation.state.console;
        let own = console.iter().rev().find(|line| line.branch == branch);
        let mut next = own.map_or(0, |line| line.number.saturating_add(1));
        let own = |line: LogLine| {
            let number = next;
            next = next.saturating_add(1);
            LogLine { step, branch: branch.clone(), number, ..line }
        };
        extend(console, lines.into_iter().map(own), ground.policy.console_lines_max);
    }

    /// Lines not told before go to the origin with each sign of life: they outlive the chain.
    pub(super) fn tell_lines(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get_mut(session) else { return };
        let Some(lines) = untold(activation) else { return };
        let (key, header) = (activation.key(), activation.state.header.clone());
        let first = activation.state.console_told;
        activation.state.console_told = u32::try_from(activation.state.console.len()).unwrap_or(u32::MAX);
        ground.send_home(&header, Message::Console(key, first, lines), Receipt::None);
    }
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
