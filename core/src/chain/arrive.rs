//! A hop arrives. Unless it is a repeat or is refused, its service function runs; the chain's function goes on once result, state and code are all here.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{
    ChainHeader, ChainId, Encoded, Exception, Fault, Hash, Hop, LogLine, Message, NodeRef, Outcome, PATH_HOSTS_MAX,
    StepKey, StepTrace, TRACE_STEPS_MAX, Tail, Value, names,
};

use super::{
    Chains, HopCopy,
    activation::{Activation, Awaits, ChainState, Code, Continuation, Ended, Phase, Recording, Suspended},
};
use crate::{
    Action, Plan, Receipt, SessionId, Start, Urgency,
    calls::{ReplyTo, Request},
    collections::{Party, Unreached},
    directory::NotHere,
    ground::Ground,
    memory::{Fate, StepRecord},
    outbox::Event,
};

impl Chains {
    /// A hop has come, `whole` or without its tail.
    pub(crate) fn arrive(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, hop: Box<Hop>, whole: bool) {
        let before = StepKey { step: hop.key.step.saturating_sub(1), ..hop.key.clone() };
        self.implicit_ack(ground, from.id, &before);
        let record = ground.dedup.get(&hop.key);
        // A recorded end is sent again even if the chain was stopped: it may have been stopped because of that end.
        let over = matches!(record, Some(StepRecord::Done(done)) if matches!(done.fate, Fate::Ended(_)));
        if !over && ground.fences.is_stopped(hop.key.chain, from.id) && !bug!(ground.policy, CancelForgotten) {
            // No refusal is recorded: what is known of the step is needed to pass a cancellation on. Steps that were running here when the chain was stopped
            // were forgotten, and this may be one of them, so its outcome is unknown.
            return refuse_as_over(ground, from, &hop);
        }
        if record.is_some() && !bug!(ground.policy, RepeatRuns) {
            return self.repeat(ground, from, *hop, whole);
        }
        if bug!(ground.policy, RefusedFences) {
            ground.note_duplicate(ground.party_of(from.id, Some(hop.key.chain)), hop.duplicate.as_ref());
        }
        match self.admit(ground, from, &hop) {
            Ok(()) => {
                // After the checks: a hop that is refused leaves no fence.
                ground.note_duplicate(ground.party_of(from.id, Some(hop.key.chain)), hop.duplicate.as_ref());
                self.take_in(ground, from, *hop, whole);
            }
            Err(why) => turn_away(ground, from, &hop, why),
        }
    }

    fn admit(&self, ground: &Ground, from: &NodeRef, hop: &Hop) -> Result<(), NotHere> {
        let policy = &ground.policy;
        check_identity(hop)?;
        ground.check_remembered(&hop.key, from.id, hop.age_us)?;
        ground.check_not_done(hop.duplicate.as_ref(), &hop.key, &hop.service, &hop.function)?;
        if !policy.runs_guests {
            let message = format!("{} runs no foreign code; call its services from where the chain is", ground.me.name);
            return Err(Exception::new(names::RUNS_NO_GUESTS, Fault::Node, message).into());
        }
        let proxied = policy.chaining_proxy && !ground.directory.serves(&hop.service);
        if hop.branches == 0 && !proxied {
            ground.directory.find(ground.now, &hop.service, &hop.function)?;
        }
        if u32::from(hop.branches) > policy.branches_max {
            let message =
                format!("{} branches to be merged, where branches_max is {}", hop.branches, policy.branches_max);
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, message).into());
        }
        let by = ground.party_of(from.id, Some(hop.key.chain));
        self.check_room(ground, by)?;
        self.check_bytes(ground, by, state_bytes(hop) + carried_bytes(hop) + hop.params.len_bytes())?;
        ground.check_running(by)?;
        if hop.budget.time_left_us() == 0 {
            let message = format!("the chain had no time left when it reached {}", ground.me.name);
            return Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message).into());
        }
        Ok(())
    }

    fn check_room(&self, ground: &Ground, by: Party) -> Result<(), Exception> {
        let (own, all) = (self.brought.of(by), self.count());
        ground.check_share("chains", by, own, all, ground.policy.activations_max)
    }

    pub(super) fn check_bytes(&self, ground: &Ground, by: Party, more: usize) -> Result<(), Exception> {
        ground.check_bytes(by, self.brought.bytes_of(by), more)
    }

    fn take_in(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, mut hop: Hop, whole: bool) {
        hop.budget = hop.budget.narrowed_to(ground.policy.budget_max);
        let (key, code, budget) = (hop.key.clone(), hop.code, hop.budget);
        let (code_bytes, branches) = (hop.code_bytes.take(), hop.branches);
        let (service, function) = (core::mem::take(&mut hop.service), core::mem::take(&mut hop.function));
        let params = core::mem::replace(&mut hop.params, Value::null());
        let credentials = hop.header.credentials.clone();
        let duplicate = hop.duplicate.clone().map(Box::new);
        let session = self.settle_in(ground, from, hop, (&service, &function, params.len_bytes()), whole);
        ground.dedup.begin(key.clone(), ground.senders(from.id, key.chain), session);
        if whole || bug!(ground.policy, AcceptedHeadless) {
            self.accept(ground, from, key.clone(), session, code_bytes, code);
        }
        if branches > 0 {
            return self.resume_if_ready(ground, session);
        }
        let may_chain = ground.directory.may_answer_with_chain(&service, &function);
        let lent = self.get_mut(session).map(|activation| activation.lend_all(ground.now, may_chain));
        let budget = lent.unwrap_or(budget);
        if bug!(ground.policy, HopsKept)
            && let Some(activation) = self.get_mut(session)
        {
            activation.budget.give_back(budget.hops_left());
        }
        let request = Request::new(
            ground.party_of(from.id, Some(key.chain)),
            ReplyTo::Suspended(session),
            service,
            function,
            params,
            ground.now,
            budget,
        );
        ground.out.tell(Event::Call(Request { key: Some(key), credentials, duplicate, ..request }));
    }

    /// The whole hop is here: from now on this node is responsible for it.
    fn accept(
        &mut self,
        ground: &mut Ground,
        from: &Arc<NodeRef>,
        key: StepKey,
        session: SessionId,
        bytes: Option<Bytes>,
        code: Hash,
    ) {
        ground.out.send(from, Message::Accepted(key), Receipt::None, Urgency::Lazy);
        ground.out.ask(Action::CheckCode { session, code, bytes });
    }

    fn settle_in(
        &mut self,
        ground: &Ground,
        from: &Arc<NodeRef>,
        hop: Hop,
        (service, function, params_bytes): (&str, &str, usize),
        whole: bool,
    ) -> SessionId {
        let mut profile = ground.profile(hop.trace.is_some(), hop.key.step, service, function);
        if let Some(profile) = &mut profile {
            profile.continuation_bytes = u64::from(hop.continuation_bytes);
            profile.params_bytes = params_bytes as u64;
        }
        let awaits = match hop.branches {
            0 => Awaits::Call,
            branches => Awaits::Branches(branches, Ended::default()),
        };
        let continuation = match whole {
            true => Continuation::Here(hop.continuation.clone()),
            false => Continuation::Coming(state_bytes(&hop), None),
        };
        let suspended = Suspended { call: hop.call, awaits, continuation, code: Code::Here };
        let heartbeat_at = ground.now.after(hop.heartbeat_in_us.min(ground.policy.heartbeat_interval_us));
        let (key, budget, phase) = (hop.key.clone(), hop.budget, Phase::Suspended(suspended));
        let unreached = Unreached::from_wire(ground.now, hop.unreached.filter(|_| !bug!(ground.policy, OrphansMoveOn)));
        let by = ground.party_of(from.id, Some(key.chain));
        let arrived = Activation::new(ground.now, key, budget, (by, from.clone()), state_of(hop, ground));
        self.insert(Activation { heartbeat_at, phase, profile, unreached, ..arrived })
    }

    /// The tail of a hop has arrived, or (`None`) never will; then the sender still keeps the hop, and sends it again.
    pub(crate) fn tail(&mut self, ground: &mut Ground, copy: &HopCopy, tail: Option<Tail>) {
        let key = &copy.key;
        let Some(session) = ground.dedup.get(key).and_then(StepRecord::session) else { return };
        let Some(activation) = self.get_mut(session).filter(|activation| copy.brought(activation)) else { return };
        let (code, from) = (activation.state.code, activation.before.clone());
        let Phase::Suspended(Suspended { continuation: state, .. }) = &mut activation.phase else { return };
        let Continuation::Coming(_, due) = state else { return };
        let Some(Tail { continuation, stacked, code_bytes }) = tail else {
            let patience_us = ground.policy.accept_timeout_us.saturating_mul(u64::from(ground.policy.hop_attempts_max));
            *due = Some(ground.now.after(patience_us));
            return self.reset_timer(session);
        };
        *state = Continuation::Here(continuation);
        activation.state.stack.iter_mut().zip(stacked).for_each(|(frame, state)| frame.continuation = state);
        self.recount(session);
        self.accept(ground, &from, key.clone(), session, code_bytes, code);
        self.resume_if_ready(ground, session);
    }

    /// Resumes a suspended chain if its result, state and function are all here.
    pub(super) fn resume_if_ready(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(Activation { phase: Phase::Suspended(suspended), .. }) = self.get_mut(session) else { return };
        let Suspended { call, awaits, continuation: Continuation::Here(continuation), code } = suspended else {
            return;
        };
        let (call, continuation) = (*call, continuation.clone());
        match code {
            Code::Here => {}
            Code::Fetching => return,
            Code::Unavailable(why) => {
                let why = (**why).clone();
                return self.finish(ground, session, Outcome::Threw(why));
            }
        }
        match core::mem::replace(awaits, Awaits::Call) {
            Awaits::Call => {}
            Awaits::Result(result) => {
                self.resume(ground, session, call, continuation, result.map_err(|why| *why));
            }
            Awaits::SubChain(service, sub) => {
                let Some(step) = self.get(session).map(|activation| activation.step) else { return };
                self.push_frame(ground, session, (call, step), service, sub, continuation);
            }
            Awaits::Branches(count, early) => {
                self.become_merge_host(ground, session, call, count, continuation);
                let me = ground.me.id;
                for end in early.into_ends() {
                    self.branch_ended(ground, me, end);
                }
            }
            Awaits::Branch(index) => {
                self.set_phase(session, Phase::Running);
                let Some(activation) = self.get(session) else { return };
                let (code, limits, by) = (activation.state.code, activation.state.limits, activation.by);
                ground.out.ask(Action::Branch { session, code, continuation, call, index, limits, by });
            }
        }
    }

    /// Lays the continuation over the guest's image, and hands the guest the result of its call.
    pub(super) fn resume(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        call: u32,
        continuation: Bytes,
        result: Result<Value, Exception>,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let result = activation.state.observe(result);
        let (code, limits, by) = (activation.state.code, activation.state.limits, activation.by);
        self.set_phase(session, Phase::Running);
        ground.out.ask(Action::Resume { session, code, continuation, call, result, limits, by });
    }

    /// Begins a chain of this node; `by` is the peer on whose behalf, if a service of this node answers that peer with a chain.
    ///
    /// # Errors
    /// `Overloaded`.
    pub(crate) fn begin(
        &mut self,
        ground: &mut Ground,
        by: Party,
        chain: ChainId,
        code: Hash,
        input: Value,
        plan: Plan,
    ) -> Result<(), Exception> {
        self.check_room(ground, by)?;
        let Start { started_at_ms, seed } = plan.start.unwrap_or_else(|| Start::of(chain, ground.unix_us()));
        let arrived = StepKey::first(chain);
        let header = ChainHeader {
            origin: ground.me.clone(),
            started_at_ms,
            mode: plan.mode,
            compose: plan.compose,
            entry: None,
            credentials: plan.credentials,
        };
        let mut profile = ground.profile(plan.profile, 0, "", "");
        if let Some(profile) = &mut profile {
            // The origin's own turn calls nothing.
            profile.target = String::new();
            profile.params_bytes = input.len_bytes() as u64;
        }
        let state = ChainState {
            code,
            header,
            stack: Vec::new(),
            emitted: 0,
            splits: 0,
            merge: None,
            merged: Vec::new(),
            path: alloc::vec![ground.me.name.clone()],
            trace: plan.profile.then(Vec::new),
            recording: plan.record.then(Box::default),
            console: Vec::new(),
            console_told: 0,
            limits: plan.limits,
            uncertain: false,
            duplicate: None,
        };
        let heartbeat_at = ground.now.after(ground.policy.heartbeat_interval_us);
        let begun = Activation::new(ground.now, arrived.clone(), plan.budget, (by, ground.me.clone()), state);
        let senders = super::senders(&begun);
        let session = self.insert(Activation { heartbeat_at, profile, ..begun });
        ground.dedup.begin(arrived, senders, session);
        let limits = plan.limits;
        ground.out.ask(Action::Begin { session, code, input, started_at_ms, seed, limits, by });
        Ok(())
    }
}

/// Bytes of the hop's continuation and of those of its enclosing chains; all of them are in its tail.
fn state_bytes(hop: &Hop) -> usize {
    let stacked = hop.stack.iter().map(|frame| frame.continuation_bytes as usize);
    stacked.fold(hop.continuation_bytes as usize, usize::saturating_add)
}

/// Bytes of what a chain carries beside its states.
fn carried_bytes(hop: &Hop) -> usize {
    let lines: usize = hop.console.iter().map(LogLine::kept_bytes).sum();
    let steps: usize = hop.trace.iter().flatten().map(StepTrace::kept_bytes).sum();
    let hosts: usize = hop.path.iter().map(|host| size_of::<String>() + host.len()).sum();
    let credentials = hop.header.credentials.as_ref().map_or(0, Value::len_bytes);
    lines + steps + hosts + credentials + hop.recording.as_ref().map_or(0, catena_wire::Recording::kept_bytes)
}

fn state_of(hop: Hop, ground: &Ground) -> ChainState {
    let path = travelled(hop.path, &ground.me.name);
    let mut trace = hop.trace;
    trace.iter_mut().for_each(|trace| trace.truncate(TRACE_STEPS_MAX));
    let by_here = || hop.header.origin.address.is_none().then(|| ground.me.clone());
    let entry = hop.header.entry.clone().or_else(by_here);
    ChainState {
        code: hop.code,
        header: ChainHeader { entry: entry.filter(|_| !bug!(ground.policy, EntryForgotten)), ..hop.header },
        stack: hop.stack,
        emitted: if bug!(ground.policy, AnswersRenumbered) { 0 } else { hop.emitted },
        splits: hop.splits,
        merge: hop.merge.map(Box::new),
        merged: hop.merged,
        path,
        trace,
        recording: hop.recording.map(|recording| Box::new(Recording::from_wire(recording))),
        // All lines are kept, even if this node allows fewer: the origin identifies a line by its position.
        console: hop.console,
        console_told: hop.console_told,
        limits: hop.limits,
        uncertain: hop.uncertain,
        duplicate: hop.duplicate.map(Box::new),
    }
}

/// Sends back a hop of a chain that is over.
pub(crate) fn refuse_as_over(ground: &mut Ground, from: &Arc<NodeRef>, hop: &Hop) {
    let why = Exception::new(names::CANCELLED, Fault::Caller, "the chain is over").outcome_unknown();
    refuse(ground, from, hop, why);
}

/// Sends the hop back: its sender goes on with the exception.
pub(super) fn refuse(ground: &mut Ground, from: &Arc<NodeRef>, hop: &Hop, why: Exception) {
    let refusal = refusal(ground, hop, why);
    ground.out.send_encoded(from.clone(), refusal, Receipt::None, None);
}

fn refusal(ground: &Ground, hop: &Hop, why: Exception) -> Encoded {
    let why = why.calling(&hop.service, &hop.function).at(&hop.key, &travelled(hop.path.clone(), &ground.me.name));
    Message::Refused(hop.key.clone(), why).encode()
}

/// Refuses the hop, or says where its service is. This is recorded, since the sender goes on: a copy of the hop that arrives late must not run.
fn turn_away(ground: &mut Ground, from: &Arc<NodeRef>, hop: &Hop, why: NotHere) {
    let (answer, lasting) = match why {
        // A sender that is told that no guests run here makes a plain call under the same step instead, so this refusal is not recorded.
        NotHere::For(why) => {
            let lasting = why.name != names::RUNS_NO_GUESTS && !bug!(ground.policy, RefusalForgotten);
            (refusal(ground, hop, *why), lasting)
        }
        NotHere::Elsewhere(relocation) => (Message::HopElsewhere(hop.key.clone(), relocation).encode(), true),
    };
    ground.out.send_encoded(from.clone(), answer.clone(), Receipt::None, None);
    if lasting {
        ground.dedup.refuse(
            ground.clock.now(),
            &hop.key,
            ground.senders(from.id, hop.key.chain),
            answer,
            &ground.policy,
        );
    }
}

/// Checks that a hop belongs to the chain that it names: a branch has to answer to its parent, in the same chain.
fn check_identity(hop: &Hop) -> Result<(), Exception> {
    let (key, origin) = (&hop.key, hop.header.origin.id);
    let home = match &hop.merge {
        None => key.branch.is_root(),
        Some(merge) => merge.at.chain == key.chain && key.branch.parent().as_ref() == Some(&merge.at.branch),
    };
    let numbered = hop.branches <= hop.splits;
    if key.chain.origin == origin && home && numbered && !matches!(key.step, 0 | u32::MAX) {
        return Ok(());
    }
    let message = format!("step {} of a chain of {:?} cannot answer to {origin:?}", key.step, key.chain.origin);
    Err(Exception::new(names::PROTOCOL, Fault::Network, message))
}

/// The path of a hop that has reached `host`. When it is full, the oldest hosts are kept.
fn travelled(mut path: Vec<String>, host: &str) -> Vec<String> {
    if path.len() < PATH_HOSTS_MAX {
        path.push(host.into());
    }
    path
}
