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
    early: BTreeMap<u64, Early>,
    /// Requests that must not be done before this many writes, in the order in which they came.
    waiting: BTreeMap<(u64, u64), SegmentMessage>,
    came: u64,
    held_bytes: u64,
}

/// A write whose turn has not come.
#[derive(Clone, Debug)]
pub(super) enum Early {
    /// It will be done.
    Held(SegmentMessage),
    /// It was refused when it came: its turn is skipped.
    Passed,
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
            Some(turn) if turn < turns.next || turns.early.contains_key(&turn) => return Now::Held,
            None if after <= turns.next => return Now::Do(message),
            _ => {}
        }
        let held = turns.early.len() + turns.waiting.len();
        let full = held >= policy.held_per_link_max
            || turns.held_bytes + bytes > policy.held_bytes_per_link_max
            || self.held_bytes + bytes > policy.held_bytes_max;
        match turn {
            Some(turn) if full => {
                // A skipped turn takes next to nothing, but a peer must not be able to pile them up either.
                if held < 2 * policy.held_per_link_max {
                    turns.early.insert(turn, Early::Passed);
                }
                Now::Full(message)
            }
            _ if full => Now::Full(message),
            Some(turn) => {
                turns.held_bytes += bytes;
                self.held_bytes += bytes;
                turns.early.insert(turn, Early::Held(message));
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
            let early = turns.early.remove(&turns.next)?;
            turns.next += 1;
            if let Early::Held(message) = early {
                let bytes = if let SegmentMessage::Write { data, .. } = &message { data.len() as u64 } else { 0 };
                turns.held_bytes -= bytes;
                self.held_bytes -= bytes;
                return Some(message);
            }
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
