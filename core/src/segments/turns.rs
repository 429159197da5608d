//! The writes of each link, in the order in which they were sent.
//!
//! A link keeps the order of small messages only: a long write may be overtaken by a short one that was sent after it. So writes are numbered, and one that
//! comes early is held until those before it are there. What was sent on a link that is lost is lost with it.

use alloc::collections::BTreeMap;

use catena_wire::{SegmentMessage, SegmentRefusal};

use super::policy::SegmentPolicy;

#[derive(Clone, Debug, Default)]
struct Turns {
    /// The number of the next write.
    next: u64,
    /// Writes whose turns have not come.
    early: BTreeMap<u64, SegmentMessage>,
    /// Turns of writes that were refused when they came, and are skipped: the first and the last of each run of them.
    passed: BTreeMap<u64, u64>,
    /// Requests that must not be done before this many writes, in the order in which they came.
    waiting: BTreeMap<(u64, u64), SegmentMessage>,
    came: u64,
    held_bytes: u64,
}

impl Turns {
    fn is_passed(&self, turn: u64) -> bool {
        self.passed.range(..=turn).next_back().is_some_and(|(_, last)| *last >= turn)
    }

    /// This turn is skipped. Importers send their writes in order, so refused ones lie side by side: beyond `runs_max` runs the turn is lost, and no later write
    /// of this link is done.
    fn pass(&mut self, turn: u64, runs_max: usize) {
        let last = self.passed.remove(&turn.saturating_add(1)).unwrap_or(turn);
        if let Some(before) = turn.checked_sub(1)
            && let Some((_, end)) = self.passed.range_mut(..=before).next_back()
            && *end == before
        {
            *end = last;
        } else if self.passed.len() < runs_max {
            self.passed.insert(turn, last);
        }
    }
}

/// What is to be done with a request now.
#[derive(Debug)]
pub(super) enum Now {
    /// It is its turn.
    Do(SegmentMessage),
    /// Nothing: it waits, or it came before.
    Held,
    /// There is no room for it to wait.
    Full(SegmentMessage),
}

#[derive(Clone, Debug, Default)]
pub(super) struct AllTurns {
    by_link: BTreeMap<u64, Turns>,
    held_bytes: u64,
}

impl AllTurns {
    /// Whether a request may be done now; if not, it is kept.
    pub(super) fn take(&mut self, link: u64, message: SegmentMessage, policy: &SegmentPolicy) -> Now {
        let (turn, after, bytes) = match &message {
            SegmentMessage::Write { turn, data, .. } => (Some(*turn), 0, data.len() as u64),
            SegmentMessage::Read { after, .. } | SegmentMessage::Cas { after, .. } => (None, *after, 0),
            SegmentMessage::Flush(_, upto) => (None, *upto, 0),
            _ => (None, 0, 0),
        };
        // The common case: nothing to wait for, nothing to look up.
        if turn.is_none() && after == 0 {
            return Now::Do(message);
        }
        let turns = self.by_link.entry(link).or_default();
        match turn {
            Some(turn) if turn == turns.next => {
                turns.next += 1;
                return Now::Do(message);
            }
            // What was done is not done again, and needs no answer.
            Some(turn) if turn < turns.next || turns.early.contains_key(&turn) || turns.is_passed(turn) => {
                return Now::Held;
            }
            None if after <= turns.next => return Now::Do(message),
            _ => {}
        }
        let held = turns.early.len() + turns.passed.len() + turns.waiting.len();
        let full = held >= policy.held_per_link_max
            || turns.held_bytes + bytes > policy.held_bytes_per_link_max
            || self.held_bytes + bytes > policy.held_bytes_max;
        match turn {
            Some(turn) if full => {
                turns.pass(turn, policy.held_per_link_max);
                Now::Full(message)
            }
            _ if full => Now::Full(message),
            Some(turn) => {
                turns.held_bytes += bytes;
                self.held_bytes += bytes;
                turns.early.insert(turn, message);
                Now::Held
            }
            None => {
                turns.came += 1;
                turns.waiting.insert((after, turns.came), message);
                Now::Held
            }
        }
    }

    /// The next request of this link whose time has come.
    pub(super) fn next(&mut self, link: u64) -> Option<SegmentMessage> {
        let turns = self.by_link.get_mut(&link)?;
        loop {
            // Those that waited for the writes done so far go before the next write.
            if let Some(entry) = turns.waiting.first_entry().filter(|entry| entry.key().0 <= turns.next) {
                return Some(entry.remove());
            }
            if let Some(last) = turns.passed.remove(&turns.next) {
                turns.next = last.saturating_add(1);
                continue;
            }
            let message = turns.early.remove(&turns.next)?;
            turns.next += 1;
            let bytes = if let SegmentMessage::Write { data, .. } = &message { data.len() as u64 } else { 0 };
            turns.held_bytes -= bytes;
            self.held_bytes -= bytes;
            return Some(message);
        }
    }

    pub(super) fn lost(&mut self, link: u64) {
        if let Some(turns) = self.by_link.remove(&link) {
            self.held_bytes -= turns.held_bytes;
        }
    }

    pub(super) const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}

/// The answer to a request that is refused; `None` if it gets none.
pub(super) fn refused(message: &SegmentMessage, why: SegmentRefusal) -> Option<SegmentMessage> {
    Some(match message {
        SegmentMessage::Read { id, .. }
        | SegmentMessage::Cas { id, .. }
        | SegmentMessage::Flush(id, _)
        | SegmentMessage::Import(id, _)
        | SegmentMessage::Attach { id, .. }
        | SegmentMessage::Reach { id, .. } => SegmentMessage::Refused(*id, why),
        SegmentMessage::Write { turn, .. } => SegmentMessage::NotWritten(*turn, why),
        _ => return None,
    })
}
