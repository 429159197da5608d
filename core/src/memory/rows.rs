//! Steps that are over, for each party in the order in which they ended, and which party has to forget one to make room.
//!
//! An entry in a row may be stale, if its step has ended again since, or goes on; the step record shows whether it is.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use catena_wire::StepKey;

use crate::{
    Time,
    collections::{Party, Shares},
};

#[derive(Clone, Debug, Default)]
struct Row {
    steps: VecDeque<(Time, StepKey)>,
    /// How many of the last steps still have their payloads.
    with_payload: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    of: BTreeMap<Party, Row>,
    /// When the first of each row ended.
    by_first: BTreeSet<(Time, Party)>,
    places: Shares<Party>,
    payloads: Shares<Party>,
}

impl Rows {
    pub(super) const fn payload_bytes(&self) -> u64 {
        self.payloads.all_bytes()
    }

    pub(super) fn push(&mut self, at: Time, party: Party, key: StepKey, bytes: u64) {
        let row = self.of.entry(party).or_default();
        if row.steps.is_empty() {
            self.by_first.insert((at, party));
        }
        row.steps.push_back((at, key));
        row.with_payload += 1;
        self.places.add_sized(party, 1);
        if bytes > 0 {
            self.payloads.add_sized(party, bytes);
        }
    }

    /// The payload of one of this party's steps was dropped.
    pub(super) fn payload_dropped(&mut self, party: Party, bytes: u64) {
        if bytes > 0 {
            self.payloads.remove_sized(party, bytes);
        }
    }

    /// The oldest step of the party that has to give way, if one has to be forgotten for one more of `newest`.
    pub(super) fn pop_for(&mut self, newest: Party, steps_max: usize) -> Option<(Time, StepKey)> {
        if self.places.all() < steps_max {
            return None;
        }
        self.pop(self.places.gives_way(newest, 1)?)
    }

    /// The oldest step of that party that still has its payload, if one has to be dropped for `bytes` more bytes of `newest`.
    pub(super) fn pop_payload_for(&mut self, newest: Party, bytes: u64, bytes_max: usize) -> Option<(Time, StepKey)> {
        if self.has_room(bytes, bytes_max) {
            return None;
        }
        let row = self.of.get_mut(&self.payloads.gives_way(newest, bytes)?)?;
        let oldest = row.steps.get(row.steps.len() - row.with_payload)?.clone();
        row.with_payload -= 1;
        Some(oldest)
    }

    pub(super) fn has_room(&self, bytes: u64, bytes_max: usize) -> bool {
        self.payload_bytes() + bytes <= bytes_max as u64
    }

    /// The oldest step, if it ended at least `ttl_us` ago.
    pub(super) fn pop_older(&mut self, awake: Time, ttl_us: u64) -> Option<(Time, StepKey)> {
        let (at, party) = *self.by_first.first()?;
        if awake.since(at) < ttl_us {
            return None;
        }
        self.pop(party)
    }

    fn pop(&mut self, party: Party) -> Option<(Time, StepKey)> {
        let row = self.of.get_mut(&party)?;
        let first = row.steps.pop_front()?;
        row.with_payload = row.with_payload.min(row.steps.len());
        self.by_first.remove(&(first.0, party));
        match row.steps.front() {
            Some((at, _)) => drop(self.by_first.insert((*at, party))),
            None => drop(self.of.remove(&party)),
        }
        self.places.remove_sized(party, 1);
        Some(first)
    }
}
