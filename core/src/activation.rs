//! A chain while it is at this node.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use bytes::Bytes;
use catena_wire::{
    Budget, Encoded, Exception, Hash, LogLine, NodeId, NodeRef, StepKey, StepTrace, TRACE_STEPS_MAX, Value,
};

use crate::{GuestCall, SessionId, Time, timers::Timers};

/// What a chain carries from hop to hop.
#[derive(Clone, Debug)]
pub(crate) struct Baggage {
    pub(crate) code: Hash,
    pub(crate) origin: Arc<NodeRef>,
    pub(crate) started_at_ms: u64,
    pub(crate) emitted: u32,
    pub(crate) path: Vec<String>,
    pub(crate) trace: Option<Vec<StepTrace>>,
    pub(crate) console: Vec<LogLine>,
}

/// A chain at this node.
#[derive(Debug)]
pub(crate) struct Activation {
    /// The step under which it came, and under which what becomes of it is remembered.
    pub(crate) arrived: StepKey,
    /// The last step made, here or before.
    pub(crate) step: u32,
    pub(crate) baggage: Baggage,
    pub(crate) budget: Budget,
    /// When `budget` was right.
    pub(crate) budget_at: Time,
    pub(crate) heartbeat_at: Time,
    /// The node that handed it over: it has the function, if nobody else has.
    pub(crate) before: Arc<NodeRef>,
    pub(crate) phase: Phase,
    /// Calls issued and not yet settled.
    pub(crate) out: BTreeSet<u32>,
    /// The guest is running: results wait in `ready` until it has returned.
    pub(crate) busy: bool,
    /// Results that have come for calls in `out`.
    pub(crate) ready: VecDeque<(u32, Result<Value, Exception>)>,
    /// The profile of the step being done.
    pub(crate) profile: StepTrace,
    /// Profiles of calls made in place, while they run.
    pub(crate) in_place: BTreeMap<u32, StepTrace>,
}

/// Where it stands.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It has just come: the service function runs, its state and its function may still be on their way.
    Landing(Landing),
    /// The guest runs, or waits for calls that are out side by side.
    Live,
    /// Its continuation is being taken, to go where this call goes.
    Packing { call: GuestCall, to: Arc<NodeRef>, with_code: bool },
    /// In custody until the next node accepts it.
    Handing(Custody),
}

/// A hop being taken in: it goes on when all three are there.
#[derive(Debug)]
pub(crate) struct Landing {
    pub(crate) call: u32,
    pub(crate) result: Option<Result<Value, Exception>>,
    pub(crate) continuation: Option<Bytes>,
    /// Sendings of the hop whose head has come and whose tail has not.
    pub(crate) tails_due: u32,
    pub(crate) code_here: bool,
}

/// A hop being handed over.
#[derive(Debug)]
pub(crate) struct Custody {
    pub(crate) to: Arc<NodeRef>,
    pub(crate) key: StepKey,
    pub(crate) call: GuestCall,
    pub(crate) continuation: Bytes,
    pub(crate) message: Encoded,
    pub(crate) attempts: u8,
    pub(crate) retry_at: Time,
}

impl Activation {
    /// What is left to spend now.
    pub(crate) fn budget_now(&self, now: Time) -> Budget {
        self.budget.after(now.since(self.budget_at))
    }

    /// When this chain next needs attention, whatever else happens.
    pub(crate) fn wakes_at(&self) -> Time {
        let deadline = self.budget_at.after(self.budget.time_left_us());
        let wake = deadline.min(self.heartbeat_at);
        match &self.phase {
            Phase::Handing(custody) => wake.min(custody.retry_at),
            _ => wake,
        }
    }

    /// Adds to the profile, if the origin asked for one.
    pub(crate) fn note(&mut self, profile: StepTrace) {
        if let Some(trace) = &mut self.baggage.trace
            && trace.len() < TRACE_STEPS_MAX
        {
            trace.push(profile);
        }
    }

    pub(crate) fn key(&self) -> StepKey {
        StepKey { step: self.step, ..self.arrived.clone() }
    }
}

/// The chains at this node.
#[derive(Debug, Default)]
pub(crate) struct Activations {
    next: u64,
    by_session: BTreeMap<SessionId, Activation>,
    handing: BTreeMap<StepKey, SessionId>,
    timers: Timers<SessionId>,
}

impl Activations {
    pub(crate) fn count(&self) -> usize {
        self.by_session.len()
    }

    pub(crate) fn insert(&mut self, activation: Activation) -> SessionId {
        self.next += 1;
        let session = SessionId(self.next);
        self.timers.set(session, activation.wakes_at());
        self.by_session.insert(session, activation);
        session
    }

    pub(crate) fn get_mut(&mut self, session: SessionId) -> Option<&mut Activation> {
        self.by_session.get_mut(&session)
    }

    /// Whether the guest of this session is here, running or waiting.
    pub(crate) fn is_live(&self, session: SessionId) -> bool {
        self.get(session).is_some_and(|activation| matches!(activation.phase, Phase::Live))
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<&Activation> {
        self.by_session.get(&session)
    }

    pub(crate) fn remove(&mut self, session: SessionId) -> Option<Activation> {
        self.timers.clear(session);
        let activation = self.by_session.remove(&session)?;
        self.leave_custody(session, &activation.phase);
        Some(activation)
    }

    /// Enters or leaves custody; returns the phase before.
    pub(crate) fn set_phase(&mut self, session: SessionId, phase: Phase) -> Option<Phase> {
        let activation = self.by_session.get_mut(&session)?;
        if let Phase::Handing(custody) = &phase {
            self.handing.insert(custody.key.clone(), session);
        }
        let before = core::mem::replace(&mut activation.phase, phase);
        self.timers.set(session, activation.wakes_at());
        self.leave_custody(session, &before);
        Some(before)
    }

    fn leave_custody(&mut self, session: SessionId, phase: &Phase) {
        // A chain that was given up as lost and went on may hand over the same step as the one that was not lost after all.
        if let Phase::Handing(custody) = phase
            && self.handing.get(&custody.key) == Some(&session)
        {
            self.handing.remove(&custody.key);
        }
    }

    /// The session that has this hop in its custody, to be handed to that node.
    pub(crate) fn handing(&self, key: &StepKey, to: NodeId) -> Option<SessionId> {
        let session = self.handing.get(key)?;
        let activation = self.by_session.get(session)?;
        matches!(&activation.phase, Phase::Handing(custody) if custody.to.id == to).then_some(*session)
    }

    /// Sessions with this or an earlier step of the same branch in their custody.
    pub(crate) fn handing_up_to(&self, key: &StepKey) -> Vec<SessionId> {
        let first = StepKey { step: 0, ..key.clone() };
        self.handing.range(&first..=key).map(|(_, session)| *session).collect()
    }

    pub(crate) fn reset_timer(&mut self, session: SessionId) {
        if let Some(activation) = self.by_session.get(&session) {
            self.timers.set(session, activation.wakes_at());
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn take_due(&mut self, now: Time) -> Option<SessionId> {
        self.timers.take_due(now)
    }

    /// Sessions whose hop is being handed to a node that is gone.
    pub(crate) fn handing_to(&self, node: NodeId) -> Vec<SessionId> {
        let to = |session: &&SessionId| matches!(self.by_session.get(session).map(|a| &a.phase), Some(Phase::Handing(c)) if c.to.id == node);
        self.handing.values().filter(to).copied().collect()
    }

    /// Whatever `pick` picks: for the rare events that concern many.
    pub(crate) fn find(&self, pick: impl Fn(&Activation) -> bool) -> Vec<SessionId> {
        self.by_session.iter().filter(|(_, activation)| pick(activation)).map(|(session, _)| *session).collect()
    }
}
