//! What a chain is while it is at this node: one folder for the phases that it goes through, one file for each.
//!
//! [`Chains`] is the table of them; what a chain does is in the files beside it.

mod arrive;
mod cancel;
mod code;
mod console;
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
    memory::Bringers,
};
pub(crate) use console::{extend, lines_brought_max};

/// Who brought a chain here, as the record of its step keeps that.
fn bringer(activation: &Activation) -> Bringers {
    Bringers { nodes: alloc::vec![activation.before.id], party: activation.by }
}

/// The chains at this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    next: u64,
    /// Boxed: they are large, and move from map to map.
    by_session: BTreeMap<SessionId, Box<Activation>>,
    /// Those being handed over, by the step, and by the node.
    handing: BTreeMap<StepKey, SessionId>,
    handing_to: BTreeSet<(NodeId, SessionId)>,
    /// Those whose branches end here, by the step that split.
    merging: BTreeMap<StepKey, SessionId>,
    /// What each party brought, and what that takes to keep, without guests.
    brought: Shares<Party>,
    timers: Timers<SessionId>,
    /// Sets that no function reads any more.
    left_sets: Vec<ChainId>,
}

impl Chains {
    pub(crate) fn count(&self) -> usize {
        self.by_session.len()
    }

    /// What they take to keep, without their guests.
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
        ground.directory.lookups.forget(Waiter::Chain(session, activation.step));
        self.left_sets.extend(core::mem::take(&mut activation.calls.sets).into_values().map(|set| set.id));
        Some(activation)
    }

    /// Puts it into another phase; returns the one before.
    fn set_phase(&mut self, session: SessionId, phase: Phase) -> Option<Phase> {
        if !matches!(phase, Phase::Running | Phase::Waiting | Phase::LookingUp(_)) {
            self.leave_sets(session);
        }
        self.update(session, |activation| core::mem::replace(&mut activation.phase, phase))
    }

    /// Changes what it is listed by, or how much it takes.
    fn update<T>(&mut self, session: SessionId, change: impl FnOnce(&mut Activation) -> T) -> Option<T> {
        self.leave(session);
        let changed = self.get_mut(session).map(change);
        self.enter(session);
        changed
    }

    /// Sets its timer, and lists it by what it waits for.
    fn enter(&mut self, session: SessionId) {
        let Some(activation) = self.by_session.get_mut(&session) else { return };
        self.timers.set(session, activation.wakes_at());
        activation.counted_bytes = activation.bytes();
        self.brought.add_sized(activation.by, activation.counted_bytes as u64);
        match &activation.phase {
            Phase::HandingOff(hand_off) => {
                self.handing.insert(activation.key(), session);
                self.handing_to.insert((hand_off.to().id, session));
            }
            Phase::Merging(merging) => drop(self.merging.insert(merging.at.clone(), session)),
            _ => {}
        }
    }

    fn leave(&mut self, session: SessionId) {
        let Some(activation) = self.by_session.get(&session) else { return };
        self.brought.remove_sized(activation.by, activation.counted_bytes as u64);
        match &activation.phase {
            // A chain that was given up as lost and went on may hand over the same step as the one that was not lost after all.
            Phase::HandingOff(hand_off) => {
                let key = activation.key();
                if self.handing.get(&key) == Some(&session) {
                    self.handing.remove(&key);
                }
                self.handing_to.remove(&(hand_off.to().id, session));
            }
            Phase::Merging(merging) if self.merging.get(&merging.at) == Some(&session) => {
                self.merging.remove(&merging.at);
            }
            _ => {}
        }
    }

    /// It has grown within its phase.
    fn recount(&mut self, session: SessionId) {
        self.update(session, |_| ());
    }

    fn reset_timer(&mut self, session: SessionId) {
        if let Some(activation) = self.by_session.get(&session) {
            self.timers.set(session, activation.wakes_at());
        }
    }

    /// The session that hands this hop to that node.
    fn handing(&self, key: &StepKey, to: NodeId) -> Option<SessionId> {
        let session = *self.handing.get(key)?;
        matches!(&self.get(session)?.phase, Phase::HandingOff(hand_off) if hand_off.to().id == to).then_some(session)
    }

    /// Sessions that hand over this or an earlier step of the same branch.
    fn handing_up_to(&self, key: &StepKey) -> Vec<SessionId> {
        let first = StepKey { step: 0, ..key.clone() };
        self.handing.range(&first..=key).map(|(_, session)| *session).collect()
    }

    /// The session that awaits the branches of this split.
    fn merging(&self, at: &StepKey) -> Option<SessionId> {
        self.merging.get(at).copied()
    }
}
