//! A chain's virtual console at its origin (rpc-chains section 3.7): each line is shown once, and after every line that it may follow from.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::{BRANCHES_MAX, Branch, LogLine};

use crate::collections::InOrder;

/// Lines of one chain. A branch carries its own and those of branches that merged into it, and they arrive in that order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console {
    carried: BTreeMap<Branch, InOrder<LogLine>>,
    /// How many of each branch's own lines have been shown.
    shown: BTreeMap<Branch, u32>,
    held: usize,
    held_bytes: usize,
}

impl Console {
    /// Bytes of lines that wait for earlier ones.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes lines that a branch carries from place `first` on; returns those that can be shown now.
    ///
    /// A line is held until those before it have arrived: lines that merged into a branch come before those that it logged after the merge. Beyond `held_max`
    /// lines and `room` bytes it is dropped: the branch's end brings it again.
    pub(crate) fn take(
        &mut self,
        branch: &Branch,
        first: u32,
        lines: Vec<LogLine>,
        (held_max, mut room): (usize, usize),
    ) -> Vec<LogLine> {
        if self.carried.len() >= BRANCHES_MAX && !self.carried.contains_key(branch) {
            return Vec::new();
        }
        let carried = self.carried.entry(branch.clone()).or_default();
        let mut ready = Vec::new();
        for (place, line) in (u64::from(first)..).zip(lines) {
            // No chain carries more lines than can be counted.
            let Ok(place) = u32::try_from(place) else { break };
            let (bytes, waits) = (line.kept_bytes(), place > carried.next());
            if carried.has(place) || (waits && (self.held >= held_max || bytes > room)) {
                continue;
            }
            room = room.saturating_sub(bytes);
            carried.insert(place, line);
            (self.held, self.held_bytes) = (self.held + 1, self.held_bytes + bytes);
            while let Some(line) = carried.pop() {
                (self.held, self.held_bytes) = (self.held - 1, self.held_bytes - line.kept_bytes());
                ready.push(line);
            }
        }
        self.not_shown(ready)
    }

    /// The chain is over: the lines that are held have nothing to wait for any more.
    pub(crate) fn flush(&mut self) -> Vec<LogLine> {
        (self.held, self.held_bytes) = (0, 0);
        // Branches before their parents: after a merge, the parent carries the last lines of its branches.
        let carried = core::mem::take(&mut self.carried).into_values().rev();
        let held = carried.flat_map(InOrder::into_held).collect();
        self.not_shown(held)
    }

    /// Drops lines that were shown: a branch also carries its parent's lines from before the split, and the parent, after the merge, those of its branches.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use alloc::format;

    const ROOM: (usize, usize) = (10, usize::MAX);

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
        assert!(console.take(&root, 1, alloc::vec![line(&root, 1)], ROOM).is_empty());
        let both = console.take(&root, 0, alloc::vec![line(&root, 0), line(&root, 1)], ROOM);
        assert_eq!(texts(&both), [":0", ":1"]);
        assert!(console.take(&root, 0, alloc::vec![line(&root, 0)], ROOM).is_empty());
        assert_eq!(console.held, 0);
    }

    #[test]
    fn what_a_branch_told_does_not_come_again_with_its_parent() {
        let root = Branch::root();
        let one = root.child(1).unwrap();
        let mut console = Console::default();
        assert_eq!(texts(&console.take(&one, 0, alloc::vec![line(&one, 0)], ROOM)), [".1:0"]);
        let rest =
            console.take(&root, 0, alloc::vec![line(&root, 0), line(&one, 0), line(&one, 1), line(&root, 1)], ROOM);
        assert_eq!(texts(&rest), [":0", ".1:1", ":1"]);
    }

    #[test]
    fn what_is_held_is_bounded_and_shown_at_the_end() {
        let root = Branch::root();
        let mut console = Console::default();
        for place in (1..9).rev() {
            assert!(console.take(&root, place, alloc::vec![line(&root, place)], (3, usize::MAX)).is_empty());
        }
        assert_eq!(texts(&console.flush()), [":6", ":7", ":8"]);
    }

    #[test]
    fn what_is_held_is_weighed_too() {
        let root = Branch::root();
        let mut console = Console::default();
        let bytes = line(&root, 1).kept_bytes();
        let lines = alloc::vec![line(&root, 1), line(&root, 2)];
        assert!(console.take(&root, 1, lines, (10, 2 * bytes - 1)).is_empty() && console.held_bytes() == bytes);
        assert_eq!(console.take(&root, 0, alloc::vec![line(&root, 0)], (10, 0)).len(), 2);
        assert_eq!(console.held_bytes(), 0);
    }

    #[test]
    fn lines_that_come_in_their_turn_need_no_room() {
        let root = Branch::root();
        let mut console = Console::default();
        assert!(console.take(&root, 9, alloc::vec![line(&root, 9)], (1, usize::MAX)).is_empty());
        let all = (0..9).map(|number| line(&root, number)).collect();
        assert_eq!(console.take(&root, 0, all, (1, usize::MAX)).len(), 10);
        assert_eq!(console.held, 0);
    }

    #[test]
    fn places_that_cannot_be_counted_hold_nothing() {
        let root = Branch::root();
        let mut console = Console::default();
        let lines = || (0..3).map(|number| line(&root, number)).collect();
        assert!(console.take(&root, u32::MAX, lines(), ROOM).is_empty());
        assert_eq!(console.held, 1);
        assert_eq!(console.take(&root, 0, lines(), ROOM).len(), 3);
    }

    #[test]
    fn what_a_branch_said_first_is_shown_before_what_its_parent_brings_of_it() {
        let root = Branch::root();
        let one = root.child(1).unwrap();
        let mut console = Console::default();
        assert!(console.take(&root, 5, alloc::vec![line(&one, 3), line(&root, 1)], ROOM).is_empty());
        assert!(console.take(&one, 1, alloc::vec![line(&one, 1), line(&one, 2)], ROOM).is_empty());
        assert_eq!(texts(&console.flush()), [".1:1", ".1:2", ".1:3", ":1"]);
    }
}
