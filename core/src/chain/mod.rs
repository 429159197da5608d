//! A chain while it is at this node: one file for each phase that it goes through.
//!
//! [`Chains`] is the table of all chains here; the files beside this one implement the phases.

mod arrive;
mod cancel;
mod code;
mod console;
mod copy;
mod end;
mod hand_off;
mod locate;
mod merge;
mod recording;
mod repeat;
mod replies;
mod split;
mod stack;
mod turn;

pub(crate) use arrive::refuse_as_over;
pub use copy::HopCopy;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use catena_wire::{ChainId, NodeId, StepKey};

use crate::{
    SessionId, Time,
    activation::{self, Activation, Phase},
    collections::{Party, Shares, Timers},
    directory::Waiter,
    ground::Ground,
    memory::Senders,
};

/// Who brought the chain here, in the form in which its step record keeps it.
fn senders(activation: &Activation) -> Senders {
    Senders { nodes: alloc::vec![activation.before.id], party: activation.by }
}

/// The chains at this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    next: u64,
    /// Boxed, since an activation is large and moves between this table and the dedup table.
    by_session: BTreeMap<SessionId, Box<Activation>>,
    /// Sessions that are handing off a hop, by its step and by the node that it goes to.
    handing_off: BTreeMap<StepKey, SessionId>,
    handing_off_to: BTreeSet<(NodeId, SessionId)>,
    /// Parents whose branches merge here, by the step that split.
    merging: BTreeMap<StepKey, SessionId>,
    /// How many chains each party brought, and their bytes, without the memory of guests.
    brought: Shares<Party>,
    timers: Timers<SessionId>,
    /// Reply sets that no function reads any more; the node stops them.
    left_sets: Vec<ChainId>,
}

impl Chains {
    pub(crate) fn count(&self) -> usize {
        self.by_session.len()
    }

    /// Bytes kept for the chains here, without the memory of their guests.
    pub(crate) const fn bytes(&self) -> usize {
        self.brought.all_bytes() as usize
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn insert(&mut self, activation: impl Into<Box<Activation>>) -> SessionId {
        self.next += 1;
        let (session, activation) = (SessionId(self.next), activation.into());
        self.by_session.insert(session, activation);
        self.enter(session);
        session
    }

    fn get(&self, session: SessionId) -> Option<&Activation> {
        self.by_session.get(&session).map(|activation| &**activation)
    }

    fn get_mut(&mut self, session: SessionId) -> Option<&mut Activation> {
        self.by_session.get_mut(&session).map(|activation| &mut **activation)
    }

    fn remove(&mut self, ground: &mut Ground, session: SessionId) -> Option<Box<Activation>> {
        self.leave(session);
        self.timers.clear(&session);
        let mut activation = self.by_session.remove(&session)?;
        if let Some(step) = activation.heard_later() {
            ground.listeners.forget(&mut ground.out, &step);
        }
        ground.directory.lookups.forget(&mut ground.out, Waiter::Chain(session, activation.step));
        self.left_sets.extend(core::mem::take(&mut activation.calls.sets).into_values().map(|set| set.id));
        Some(activation)
    }

    /// Puts the session into another phase; returns the previous one.
    fn set_phase(&mut self, session: SessionId, phase: Phase) -> Option<Phase> {
        if !matches!(phase, Phase::Running | Phase::Waiting | Phase::LookingUp(_)) {
            self.leave_sets(session);
        }
        self.update(session, |activation| core::mem::replace(&mut activation.phase, phase))
    }

    /// Applies a change that may affect how the session is indexed, or how many bytes it counts for.
    fn update<T>(&mut self, session: SessionId, change: impl FnOnce(&mut Activation) -> T) -> Option<T> {
        self.leave(session);
        let changed = self.get_mut(session).map(change);
        self.enter(session);
        changed
    }

    /// Sets the session's timer, counts its bytes, and indexes it by what it waits for.
    fn enter(&mut self, session: SessionId) {
        let Some(activation) = self.by_session.get_mut(&session) else { return };
        self.timers.set(session, activation.wakes_at());
        activation.counted_bytes = activation.bytes();
        self.brought.add_sized(activation.by, activation.counted_bytes as u64);
        match &activation.phase {
            Phase::HandingOff(hand_off) => {
                self.handing_off.insert(activation.key(), session);
                self.handing_off_to.insert((hand_off.to().id, session));
            }
            Phase::Merging(merging) => drop(self.merging.insert(merging.at.clone(), session)),
            _ => {}
        }
    }

    fn leave(&mut self, session: SessionId) {
        let Some(activation) = self.by_session.get(&session) else { return };
        self.brought.remove_sized(activation.by, activation.counted_bytes as u64);
        match &activation.phase {
            // Two ways of one chain may hand off the same step here, if the first was wrongly given up as lost: only this session's entry is removed.
            Phase::HandingOff(hand_off) => {
                let key = activation.key();
                if self.handing_off.get(&key) == Some(&session) {
                    self.handing_off.remove(&key);
                }
                self.handing_off_to.remove(&(hand_off.to().id, session));
            }
            Phase::Merging(merging) if self.merging.get(&merging.at) == Some(&session) => {
                self.merging.remove(&merging.at);
            }
            _ => {}
        }
    }

    /// The session has grown or shrunk within its phase: counts its bytes again.
    fn recount(&mut self, session: SessionId) {
        self.update(session, |_| ());
    }

    fn reset_timer(&mut self, session: SessionId) {
        if let Some(activation) = self.by_session.get(&session) {
            self.timers.set(session, activation.wakes_at());
        }
    }

    /// The session that is handing off this hop to that node.
    fn handing_off(&self, key: &StepKey, to: NodeId) -> Option<SessionId> {
        let session = *self.handing_off.get(key)?;
        matches!(&self.get(session)?.phase, Phase::HandingOff(hand_off) if hand_off.to().id == to).then_some(session)
    }

    /// Sessions that are handing off this or an earlier step of the same branch.
    fn handing_off_up_to(&self, key: &StepKey) -> Vec<SessionId> {
        let first = StepKey { step: 0, ..key.clone() };
        self.handing_off.range(&first..=key).map(|(_, session)| *session).collect()
    }

    /// The session that awaits the branches of this split.
    fn merging(&self, at: &StepKey) -> Option<SessionId> {
        self.merging.get(at).copied()
    }
}
