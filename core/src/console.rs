//! The virtual console (rpc-chains section 3.7): lines travel with the chain, some ahead of its end; the origin shows each
//! once, and none before what it may follow from.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use catena_wire::{BRANCHES_MAX, Branch, CONSOLE_LINES_MAX, LogLine, Message};

use crate::{Node, Policy, SessionId, Time, activation::Activation};

/// Lines of one branch and of those that merged into it, in the order in which it carries them.
#[derive(Clone, Debug, Default)]
struct Carried {
    /// Place of the next one to show.
    next: u32,
    held: BTreeMap<u32, LogLine>,
}

/// What the origin has heard of a chain's console.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console {
    carried: BTreeMap<Branch, Carried>,
    /// Lines shown of each branch's own.
    shown: BTreeMap<Branch, u32>,
    held: usize,
}

impl Console {
    /// Takes lines that a branch carries from place `first` on; returns those that can be shown now.
    ///
    /// A line is held until those before it have come: what merged into a branch comes before what it said after.
    pub(crate) fn take(&mut self, branch: &Branch, first: u32, lines: Vec<LogLine>, held_max: usize) -> Vec<LogLine> {
        if self.carried.len() >= BRANCHES_MAX && !self.carried.contains_key(branch) {
            return Vec::new();
        }
        let carried = self.carried.entry(branch.clone()).or_default();
        let mut ready = Vec::new();
        for (place, line) in (u64::from(first)..).zip(lines) {
            // Nobody carries more than can be counted.
            let Ok(place) = u32::try_from(place) else { break };
            if place > carried.next && self.held < held_max {
                self.held += usize::from(carried.held.insert(place, line).is_none());
            } else if place == carried.next {
                ready.push(line);
                carried.next = carried.next.saturating_add(1);
                while let Some(line) = carried.held.remove(&carried.next) {
                    self.held -= 1;
                    ready.push(line);
                    carried.next = carried.next.saturating_add(1);
                }
            }
        }
        self.not_shown(ready)
    }

    /// The chain is over: what is held has nothing to wait for.
    pub(crate) fn flush(&mut self) -> Vec<LogLine> {
        self.held = 0;
        // A branch before its parent: from the merge on that carries what the branch said last.
        let carried = core::mem::take(&mut self.carried).into_values().rev();
        let held = carried.flat_map(|carried| carried.held.into_values()).collect();
        self.not_shown(held)
    }

    /// A branch carries what its parent said before it, and the parent, from the merge on, what its branches said.
    fn not_shown(&mut self, mut lines: Vec<LogLine>) -> Vec<LogLine> {
        lines.retain(|line| {
            if self.shown.len() >= BRANCHES_MAX && !self.shown.contains_key(&line.branch) {
                return false;
            }
            let shown = self.shown.entry(line.branch.clone()).or_default();
            let new = line.number >= *shown;
            *shown = (*shown).max(line.number.saturating_add(1));
            new
        });
        lines
    }
}

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

/// What lines take to keep.
pub(crate) fn bytes_of(lines: &[LogLine]) -> usize {
    lines.iter().map(|line| size_of::<LogLine>() + line.node.len() + line.text.len()).sum()
}

impl Node {
    /// Lines that the function of this session has said.
    pub(crate) fn log(&mut self, now: Time, session: SessionId, texts: Vec<String>) {
        if texts.is_empty() {
            return;
        }
        let (at_us, node) = (self.unix_us(now), self.me.name.clone());
        let line = |text| LogLine { step: 0, node: node.clone(), at_us, text, branch: Branch::root(), number: 0 };
        let lines = texts.into_iter().map(line).collect();
        self.carry(session, None, lines);
    }

    /// These become lines of the chain of this session, under its branch and its numbers: said at this step, or at the one
    /// where it is. Node, time and text stay.
    pub(crate) fn carry(&mut self, session: SessionId, step: Option<u32>, lines: Vec<LogLine>) {
        let lines_max = self.policy.console_lines_max;
        let Some(activation) = self.activations.get_mut(session) else { return };
        let (step, branch) = (step.unwrap_or(activation.step), activation.arrived.branch.clone());
        let console = &mut activation.baggage.console;
        let own = console.iter().rev().find(|line| line.branch == branch);
        let mut next = own.map_or(0, |line| line.number.saturating_add(1));
        let own = |line: LogLine| {
            let number = next;
            next = next.saturating_add(1);
            LogLine { step, branch: branch.clone(), number, ..line }
        };
        extend(console, lines.into_iter().map(own), lines_max);
    }

    /// Lines not told before go to the origin with each sign of life: they outlive the chain.
    pub(crate) fn tell_lines(&mut self, now: Time, session: SessionId) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Some(lines) = untold(activation) else { return };
        let (key, charter, first) =
            (activation.key(), activation.baggage.charter.clone(), activation.baggage.console_told);
        activation.baggage.console_told = u32::try_from(activation.baggage.console.len()).unwrap_or(u32::MAX);
        self.send_to_origin(now, &charter, Message::Console(key.clone(), first, lines), key);
    }
}

/// Lines that this chain carries and that the origin has not been sent.
pub(crate) fn untold(activation: &Activation) -> Option<Vec<LogLine>> {
    let lines = activation.baggage.console.get(activation.baggage.console_told as usize..)?;
    (!lines.is_empty()).then(|| lines.to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn line(branch: &Branch, number: u32) -> LogLine {
        let text = format!("{branch}:{number}");
        LogLine { step: 0, node: "n".into(), at_us: 0, text, branch: branch.clone(), number }
    }

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_that_overtake_wait_and_repeats_are_dropped() {
        let root = Branch::root();
        let mut console = Console::default();
        assert!(console.take(&root, 1, alloc::vec![line(&root, 1)], 10).is_empty());
        let both = console.take(&root, 0, alloc::vec![line(&root, 0), line(&root, 1)], 10);
        assert_eq!(texts(&both), [":0", ":1"]);
        assert!(console.take(&root, 0, alloc::vec![line(&root, 0)], 10).is_empty());
        assert_eq!(console.held, 0);
    }

    #[test]
    fn what_a_branch_told_does_not_come_again_with_its_parent() {
        let root = Branch::root();
        let one = root.child(1).unwrap();
        let mut console = Console::default();
        assert_eq!(texts(&console.take(&one, 0, alloc::vec![line(&one, 0)], 10)), [".1:0"]);
        let rest =
            console.take(&root, 0, alloc::vec![line(&root, 0), line(&one, 0), line(&one, 1), line(&root, 1)], 10);
        assert_eq!(texts(&rest), [":0", ".1:1", ":1"]);
    }

    #[test]
    fn what_is_held_is_bounded_and_shown_at_the_end() {
        let root = Branch::root();
        let mut console = Console::default();
        for place in (1..9).rev() {
            assert!(console.take(&root, place, alloc::vec![line(&root, place)], 3).is_empty());
        }
        assert_eq!(texts(&console.flush()), [":6", ":7", ":8"]);
    }

    #[test]
    fn one_more_line_says_that_others_are_left_out() {
        let root = Branch::root();
        let mut console = Vec::new();
        extend(&mut console, (0..5).map(|number| line(&root, number)), 3);
        extend(&mut console, (3..5).map(|number| line(&root, number)), 3);
        assert_eq!(texts(&console), [":0", ":1", ":2", "(further lines are left out: console_lines_max is 3)"]);
    }

    #[test]
    fn lines_that_come_in_their_turn_need_no_room() {
        let root = Branch::root();
        let mut console = Console::default();
        assert!(console.take(&root, 9, alloc::vec![line(&root, 9)], 1).is_empty());
        let all = (0..9).map(|number| line(&root, number)).collect();
        assert_eq!(console.take(&root, 0, all, 1).len(), 10);
        assert_eq!(console.held, 0);
    }

    #[test]
    fn places_that_cannot_be_counted_hold_nothing() {
        let root = Branch::root();
        let mut console = Console::default();
        let lines = || (0..3).map(|number| line(&root, number)).collect();
        assert!(console.take(&root, u32::MAX, lines(), 10).is_empty());
        assert_eq!(console.held, 1);
        assert_eq!(console.take(&root, 0, lines(), 10).len(), 3);
    }

    #[test]
    fn what_a_branch_said_first_is_shown_before_what_its_parent_brings_of_it() {
        let root = Branch::root();
        let one = root.child(1).unwrap();
        let mut console = Console::default();
        assert!(console.take(&root, 5, alloc::vec![line(&one, 3), line(&root, 1)], 10).is_empty());
        assert!(console.take(&one, 1, alloc::vec![line(&one, 1), line(&one, 2)], 10).is_empty());
        assert_eq!(texts(&console.flush()), [".1:1", ".1:2", ".1:3", ":1"]);
    }
}
