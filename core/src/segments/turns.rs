//! The writes of each link, in the order in which they were sent.
//!
//! A link keeps the order of small messages only: a long write may be overtaken by a short one that was sent after it. So writes are numbered, and one that
//! comes early is held until those before it are there, or have not come for too long. What was sent on a link that is lost is lost with it.

use alloc::collections::{BTreeMap, BTreeSet};

use catena_wire::{SegmentMessage, SegmentRefusal};

use super::policy::SegmentPolicy;
use crate::{
    Time,
    collections::{Party, Shares},
};

#[derive(Clone, Debug)]
struct Turns {
    /// Whose share pays for what is held.
    party: Party,
    /// The number of the next write.
    next: u64,
    /// Writes whose turns have not come.
    early: BTreeMap<u64, SegmentMessage>,
    /// Turns of writes that were refused when they came, and are skipped: the first and the last of each run of them.
    passed: BTreeMap<u64, u64>,
    /// Turns of writes that were held for too long. Their importer is told when their turns come: no flush that covers them may be answered before.
    late: BTreeSet<u64>,
    /// Requests that must not be done before this many writes, in the order in which they came.
    waiting: BTreeMap<(u64, u64), SegmentMessage>,
    came: u64,
    held_bytes: u64,
    /// When a turn last came, or the first of what is held.
    moved: Time,
}

impl Turns {
    const fn new(party: Party) -> Self {
        Self {
            party,
            next: 0,
            early: BTreeMap::new(),
            passed: BTreeMap::new(),
            late: BTreeSet::new(),
            waiting: BTreeMap::new(),
            came: 0,
            held_bytes: 0,
            moved: Time::from_us(0),
        }
    }

    fn holds_nothing(&self) -> bool {
        self.early.is_empty() && self.waiting.is_empty()
    }

    /// Everything that is held goes: its party has its share back. Returns the turns of the writes among it.
    fn let_go(&mut self, shares: &mut Shares<Party>) -> BTreeMap<u64, SegmentMessage> {
        let early = core::mem::take(&mut self.early);
        let waiting = core::mem::take(&mut self.waiting);
        early.values().chain(waiting.values()).for_each(|held| shares.remove_sized(self.party, bytes_of(held)));
        self.held_bytes = 0;
        early
    }

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

/// What a request that waits counts for.
fn bytes_of(held: &SegmentMessage) -> u64 {
    if let SegmentMessage::Write { data, .. } = held { data.len() as u64 } else { 0 }
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
    /// How much of what is held each party has sent, by all its links.
    shares: Shares<Party>,
}

impl AllTurns {
    /// Whether a request of this party may be done now; if not, it is kept.
    pub(super) fn take(
        &mut self,
        now: Time,
        (link, party): (u64, Party),
        message: SegmentMessage,
        policy: &SegmentPolicy,
    ) -> Now {
        let (turn, after) = match &message {
            SegmentMessage::Write { turn, .. } => (Some(*turn), 0),
            SegmentMessage::Read { after, .. } | SegmentMessage::Cas { after, .. } => (None, *after),
            SegmentMessage::Flush(_, upto) => (None, *upto),
            _ => (None, 0),
        };
        // The common case: nothing to wait for, nothing to look up.
        if turn.is_none() && after == 0 {
            return Now::Do(message);
        }
        let (bytes, shares) = (bytes_of(&message), &mut self.shares);
        let turns = self.by_link.entry(link).or_insert_with(|| Turns::new(party));
        match turn {
            Some(turn) if turn == turns.next => {
                turns.next += 1;
                turns.moved = now;
                return Now::Do(message);
            }
            // What was done is not done again, and needs no answer.
            Some(turn)
                if turn < turns.next
                    || turns.early.contains_key(&turn)
                    || turns.late.contains(&turn)
                    || turns.is_passed(turn) =>
            {
                return Now::Held;
            }
            None if after <= turns.next => return Now::Do(message),
            _ => {}
        }
        let held = turns.early.len() + turns.passed.len() + turns.late.len() + turns.waiting.len();
        let full = held >= policy.held_per_link_max
            || turns.held_bytes + bytes > policy.held_bytes_per_link_max
            || shares.of(turns.party) >= policy.held_per_peer_max
            || shares.bytes_of(turns.party) + bytes > policy.held_bytes_per_peer_max
            || shares.all_bytes() + bytes > policy.held_bytes_max;
        if !full {
            turns.moved = if turns.holds_nothing() { now } else { turns.moved };
            turns.held_bytes += bytes;
            shares.add_sized(turns.party, bytes);
        }
        match turn {
            Some(turn) if full => {
                turns.pass(turn, policy.held_per_link_max);
                Now::Full(message)
            }
            _ if full => Now::Full(message),
            Some(turn) => {
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

    /// The next request of this link whose time has come; `Err`: it is the write of this turn, which was dropped meanwhile.
    pub(super) fn next(&mut self, link: u64) -> Option<Result<SegmentMessage, u64>> {
        let turns = self.by_link.get_mut(&link)?;
        loop {
            // Those that waited for the writes done so far go before the next write.
            if let Some(entry) = turns.waiting.first_entry().filter(|entry| entry.key().0 <= turns.next) {
                self.shares.remove(turns.party);
                return Some(Ok(entry.remove()));
            }
            if let Some(last) = turns.passed.remove(&turns.next) {
                turns.next = last.saturating_add(1);
                continue;
            }
            if turns.late.remove(&turns.next) {
                turns.next += 1;
                return Some(Err(turns.next - 1));
            }
            let message = turns.early.remove(&turns.next)?;
            turns.next += 1;
            let bytes = bytes_of(&message);
            turns.held_bytes -= bytes;
            self.shares.remove_sized(turns.party, bytes);
            return Some(Ok(message));
        }
    }

    pub(super) fn lost(&mut self, link: u64) {
        if let Some(mut turns) = self.by_link.remove(&link) {
            turns.let_go(&mut self.shares);
        }
    }

    /// Drops what is held of links on which no turn has come for so long. Whoever waits for an answer to it has given up.
    pub(super) fn on_timeout(&mut self, now: Time, held_time_max_us: u64) {
        for turns in self.by_link.values_mut().filter(|turns| !turns.holds_nothing()) {
            if now.since(turns.moved) >= held_time_max_us {
                let early = turns.let_go(&mut self.shares);
                turns.late.extend(early.into_keys());
            }
        }
    }

    pub(super) const fn held_bytes(&self) -> u64 {
        self.shares.all_bytes()
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
