//! A chain while it is at this node.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use bytes::Bytes;
use catena_wire::{
    BranchCount, Budget, ChainId, Charter, End, Exception, Frame, Hash, Listener, LogLine, Merge, NodeId, NodeRef,
    StepKey, StepLimits, StepTrace, TRACE_STEPS_MAX, Value,
};

use crate::{
    Answer, GuestCall, GuestSplit, SessionId, SubChain, Time, action::Again, console::bytes_of, gathering::Gathering,
    recording::Recording, redoing::Mark, timers::Timers,
};

/// What a chain carries from hop to hop.
#[derive(Clone, Debug)]
pub(crate) struct Baggage {
    pub(crate) code: Hash,
    pub(crate) charter: Charter,
    /// Enclosing chains, outermost first.
    pub(crate) stack: Vec<Frame>,
    pub(crate) emitted: u32,
    /// Branches that this one has split into so far.
    pub(crate) splits: u16,
    /// Where this branch's outcome goes.
    pub(crate) merge: Option<Merge>,
    /// Answers of branches that have merged into this one.
    pub(crate) merged: Vec<BranchCount>,
    pub(crate) path: Vec<String>,
    pub(crate) trace: Option<Vec<StepTrace>>,
    pub(crate) recording: Option<Recording>,
    pub(crate) console: Vec<LogLine>,
    /// How many of these lines the origin has been sent.
    pub(crate) console_told: u32,
    /// What the function may use, if that is less than each node allows.
    pub(crate) limits: StepLimits,
    /// Its function was told of a call that may have taken effect.
    pub(crate) doubt: bool,
    /// A step before was done again.
    pub(crate) redone: Option<Box<Mark>>,
}

impl Baggage {
    /// Who is told of its intermediate answers.
    pub(crate) fn listener(&self) -> Listener {
        match (self.stack.last(), &self.merge) {
            (Some(frame), _) if frame.hears => Listener::Creator(frame.creator.clone(), frame.step),
            (Some(_), _) => Listener::Nobody,
            (None, Some(merge)) => merge.listener.clone(),
            (None, None) => Listener::Origin,
        }
    }

    /// Answers sent to the origin.
    pub(crate) fn answers(&self) -> u32 {
        match (self.stack.first(), &self.merge) {
            (_, Some(merge)) if merge.listener != Listener::Origin => 0,
            // An exception that ends the whole of a composed chain from within a sub-chain: the parent's answers count.
            (Some(outermost), _) => outermost.emitted,
            (None, _) => self.emitted,
        }
    }

    /// What it takes to keep, besides what every step takes.
    pub(crate) fn bytes(&self) -> usize {
        let stacked: usize = self.stack.iter().map(|frame| size_of::<Frame>() + frame.continuation.len()).sum();
        let lines = bytes_of(&self.console);
        let steps = self.trace.as_ref().map_or(0, Vec::len) * (size_of::<StepTrace>() + NAMES_BYTES);
        let hosts: usize = self.path.iter().map(|host| size_of::<String>() + host.len()).sum();
        let credentials = self.charter.credentials.as_ref().map_or(0, Value::len_bytes);
        let recorded = self.recording.as_ref().map_or(0, Recording::bytes);
        stacked + lines + steps + recorded + hosts + credentials + self.merged.len() * size_of::<BranchCount>()
    }
}

/// What the names in one step of a profile take, more or less.
const NAMES_BYTES: usize = 64;

/// Hops that a chain never lends: if what was lent is lost with its borrower, the chain can still do something about it.
const HOPS_RESERVED_MAX: u32 = 64;

/// A chain at this node.
#[derive(Clone, Debug)]
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
    /// Where the last sub-chain began that ended here: that node has had the function that goes on.
    pub(crate) creator: Option<Arc<NodeRef>>,
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
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// It has just come: the service function runs, its state and its function may still be on their way.
    Landing(Landing),
    /// The guest runs, or waits for calls that are out side by side.
    Live,
    /// Its continuation is being taken, to go where this call goes, or to be split.
    Packing { cargo: Cargo, to: Arc<NodeRef>, with_code: bool, again: Again },
    /// In custody until the next node accepts it.
    Handing(Custody),
    /// Its branches are under way, and end here.
    Gathering(Gathering),
}

/// A hop being taken in: it goes on when all three are there.
#[derive(Clone, Debug)]
pub(crate) struct Landing {
    pub(crate) call: u32,
    /// The service that answered with a chain, if it did.
    pub(crate) service: String,
    pub(crate) result: Option<Result<Answer, Exception>>,
    pub(crate) continuation: Option<Bytes>,
    /// Sendings of the hop whose head has come and whose tail has not.
    pub(crate) tails_due: u32,
    pub(crate) code_here: bool,
    /// Nobody has the function: it ends so as soon as the states of the enclosing chains are there.
    pub(crate) in_vain: Option<Exception>,
    /// No call: branches that will end here.
    pub(crate) gather: u16,
    /// Those that ended before the parent's state had come.
    pub(crate) early: Vec<End>,
    /// No call: the branch of a split that begins here.
    pub(crate) branch: Option<u16>,
}

impl Landing {
    /// Of what is here already: its state is, and nothing has to come.
    pub(crate) const fn here(call: u32, continuation: Bytes) -> Self {
        Self {
            call,
            service: String::new(),
            result: None,
            continuation: Some(continuation),
            tails_due: 0,
            code_here: true,
            in_vain: None,
            gather: 0,
            early: Vec::new(),
            branch: None,
        }
    }
}

/// What a chain moves for.
#[derive(Clone, Debug)]
pub(crate) enum Cargo {
    /// A call.
    Call(GuestCall),
    /// A split, to its merge host.
    Split(GuestSplit),
    /// Nothing: it makes room for the chain with which a service of this node answered this call.
    Sub {
        /// The guest's number for the call.
        call: u32,
        /// The service.
        service: String,
        /// Its answer.
        sub: SubChain,
    },
}

impl Cargo {
    /// The guest's number for it.
    pub(crate) const fn number(&self) -> u32 {
        match self {
            Self::Call(call) => call.call,
            Self::Split(split) => split.call,
            Self::Sub { call, .. } => *call,
        }
    }

    /// The service that decides where it goes.
    pub(crate) fn service(&self) -> &str {
        match self {
            Self::Call(call) => &call.service,
            Self::Split(split) => split.at.as_deref().unwrap_or(""),
            Self::Sub { service, .. } => service,
        }
    }

    pub(crate) fn function(&self) -> &str {
        match self {
            Self::Call(call) => &call.function,
            Self::Split(_) => "split",
            Self::Sub { .. } => "",
        }
    }

    pub(crate) const fn position(&self) -> (u32, u32) {
        match self {
            Self::Call(call) => (call.line, call.column),
            Self::Split(split) => (split.line, split.column),
            Self::Sub { .. } => (0, 0),
        }
    }
}

/// A hop being handed over.
#[derive(Clone, Debug)]
pub(crate) struct Custody {
    pub(crate) to: Arc<NodeRef>,
    pub(crate) key: StepKey,
    pub(crate) cargo: Cargo,
    pub(crate) continuation: Bytes,
    pub(crate) code_bytes: Option<Bytes>,
    pub(crate) attempts: u8,
    pub(crate) retry_at: Time,
    /// It was accepted there before: that it cannot be reached now does not mean that nothing was done.
    pub(crate) accepted: bool,
    /// When it went out for the first time, or was about to.
    pub(crate) since: Time,
    /// Another instance of the service is being looked for.
    pub(crate) seeks: bool,
    /// Where it may be done again when it is unknown whether it was done.
    pub(crate) again: Again,
    /// Instances of the service that were tried before this one.
    pub(crate) tried: Vec<Arc<NodeRef>>,
    /// It may have been done by the node of this name: no other may try.
    pub(crate) bound_to: Option<String>,
    /// What the function is told if it cannot be handed over, instead of why.
    pub(crate) instead: Option<Exception>,
}

impl Activation {
    /// What is left to spend now.
    pub(crate) fn budget_now(&self, now: Time) -> Budget {
        self.budget.after(now.since(self.budget_at))
    }

    /// Hops that it can lend to calls that may become chains of their own, once so many calls are counted.
    pub(crate) fn spare_hops(&self, now: Time, calls: u32) -> u32 {
        let left = self.budget_now(now).without_hops(calls).hops_left();
        left - (left / 2).min(HOPS_RESERVED_MAX)
    }

    /// What each of so many new calls can be lent. A function that has several out may go on making others while it waits:
    /// one part stays for those.
    pub(crate) fn hops_for_each(&self, now: Time, calls: usize) -> u32 {
        let out = u32::try_from(self.out.len().max(calls)).unwrap_or(u32::MAX).max(1);
        let parts = if out == 1 { 1 } else { out.saturating_add(1) };
        self.spare_hops(now, u32::try_from(calls).unwrap_or(u32::MAX)) / parts
    }

    /// So many of its hops, for a call; what that does not spend comes back.
    pub(crate) fn lend(&mut self, now: Time, hops: u32) -> Budget {
        let left = self.budget_now(now);
        let hops = hops.min(left.hops_left());
        self.budget = left.without_hops(hops);
        self.budget_at = now;
        Budget::new(left.time_left_us(), hops)
    }

    /// All that it can spare, if that may be needed: it waits for this one call.
    pub(crate) fn lend_all(&mut self, now: Time, may_chain: bool) -> Budget {
        let spare = if may_chain { self.spare_hops(now, 0) } else { 0 };
        self.lend(now, spare)
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
            trace.push(StepTrace { branch: self.arrived.branch.clone(), ..profile });
        }
    }

    /// Whether something is under way that may take effect, or has.
    pub(crate) fn has_call_out(&self) -> bool {
        match &self.phase {
            Phase::Landing(landing) => landing.gather == 0 && landing.branch.is_none(),
            Phase::Handing(custody) => matches!(custody.cargo, Cargo::Call(_)) && custody.attempts > 0,
            Phase::Live => !self.out.is_empty(),
            Phase::Gathering(_) => true,
            Phase::Packing { cargo, .. } => matches!(cargo, Cargo::Sub { .. }),
        }
    }

    pub(crate) fn key(&self) -> StepKey {
        StepKey { step: self.step, ..self.arrived.clone() }
    }

    pub(crate) const fn chain(&self) -> ChainId {
        self.arrived.chain
    }
}

/// The chains at this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activations {
    next: u64,
    /// Boxed: they are large, and move from map to cache.
    by_session: BTreeMap<SessionId, Box<Activation>>,
    handing: BTreeMap<StepKey, SessionId>,
    /// By the step that split.
    gathering: BTreeMap<StepKey, SessionId>,
    timers: Timers<SessionId>,
}

impl Activations {
    pub(crate) fn count(&self) -> usize {
        self.by_session.len()
    }

    pub(crate) fn insert(&mut self, activation: impl Into<Box<Activation>>) -> SessionId {
        self.next += 1;
        let session = SessionId(self.next);
        self.by_session.insert(session, activation.into());
        self.enter(session);
        session
    }

    pub(crate) fn get_mut(&mut self, session: SessionId) -> Option<&mut Activation> {
        self.by_session.get_mut(&session).map(|activation| &mut **activation)
    }

    /// Whether the guest of this session is here, running or waiting.
    pub(crate) fn is_live(&self, session: SessionId) -> bool {
        self.get(session).is_some_and(|activation| matches!(activation.phase, Phase::Live))
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<&Activation> {
        self.by_session.get(&session).map(|activation| &**activation)
    }

    pub(crate) fn remove(&mut self, session: SessionId) -> Option<Box<Activation>> {
        self.timers.clear(session);
        let activation = self.by_session.remove(&session)?;
        self.leave_custody(session, &activation.phase);
        Some(activation)
    }

    /// Enters or leaves custody; returns the phase before.
    pub(crate) fn set_phase(&mut self, session: SessionId, phase: Phase) -> Option<Phase> {
        let before = core::mem::replace(&mut self.by_session.get_mut(&session)?.phase, phase);
        self.leave_custody(session, &before);
        self.enter(session);
        Some(before)
    }

    /// Sets its timer, and lists it by what it waits for.
    fn enter(&mut self, session: SessionId) {
        let Some(activation) = self.by_session.get(&session) else { return };
        self.timers.set(session, activation.wakes_at());
        match &activation.phase {
            Phase::Handing(custody) => drop(self.handing.insert(custody.key.clone(), session)),
            Phase::Gathering(gathering) => drop(self.gathering.insert(gathering.at.clone(), session)),
            _ => {}
        }
    }

    fn leave_custody(&mut self, session: SessionId, phase: &Phase) {
        if let Phase::Gathering(gathering) = phase
            && self.gathering.get(&gathering.at) == Some(&session)
        {
            self.gathering.remove(&gathering.at);
        }
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

    /// The session that gathers the branches of this split.
    pub(crate) fn gathering(&self, at: &StepKey) -> Option<SessionId> {
        self.gathering.get(at).copied()
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
