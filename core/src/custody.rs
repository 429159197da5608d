//! The hop out: kept here until the next node accepts it, taken back if it does not (design, section 2).

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{Encoded, Exception, Hash, Hop, Message, NodeId, NodeRef, Outcome, StepKey, StepTrace, Value, names};

use crate::{
    Action, GuestSplit, Handed, Instance, Node, Receipt, SessionId, Time, Urgency,
    action::Again,
    activation::{Activation, Cargo, Custody, Phase},
    calling::{lost, unreachable},
    calls::Unresolved,
    recording::Recording,
};

impl Cargo {
    pub(crate) const fn split(&self) -> Option<&GuestSplit> {
        match self {
            Self::Split(split) => Some(split),
            Self::Call(_) | Self::Sub { .. } => None,
        }
    }
}

impl Custody {
    /// Whether this node may try.
    fn allows(&self, node: &NodeRef) -> bool {
        let bound_elsewhere = self.bound_to.as_ref().is_some_and(|name| *name != node.name);
        !bound_elsewhere && self.tried.iter().all(|tried| tried.id != node.id)
    }
}

impl Node {
    /// The chain goes where this goes, as soon as it is known where that is.
    pub(crate) fn find_and_pack(&mut self, session: SessionId, cargo: Cargo) {
        match self.names.get(cargo.service()).cloned() {
            Some(place) => self.pack(session, cargo, place),
            None => {
                let service = alloc::string::String::from(cargo.service());
                if self.calls.put_aside(&service, Unresolved::Hop { session, cargo }) {
                    self.actions.push_back(Action::Resolve { service, avoid: Vec::new() });
                }
            }
        }
    }

    pub(crate) fn pack(&mut self, session: SessionId, cargo: Cargo, place: Instance) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let code = activation.baggage.code;
        // Its proxy remembers no step across a crash, nor which instance it asked.
        let again = match place.again(cargo.function()) {
            Again::SameNode if place.proxy.is_some() => Again::Nowhere,
            again => again,
        };
        let to = place.proxy.unwrap_or(place.node);
        let with_code = to.id != self.me.id && !self.codes.was_sent(to.id, code);
        activation.busy = true;
        self.activations.set_phase(session, Phase::Packing { cargo, to, with_code, again });
        self.suspend(session, with_code.then_some(code));
    }

    /// Before all that waits, which may be chains in want of the room that this guest takes. Nothing in line concerns its
    /// session: it is live, and not busy.
    pub(crate) fn suspend(&mut self, session: SessionId, with_code: Option<Hash>) {
        self.actions.push_front(Action::Suspend { session, with_code });
    }

    /// The continuation has been taken, in `took_us`: the hop goes out, and stays in custody until it is accepted.
    pub fn on_suspended(
        &mut self,
        now: Time,
        session: SessionId,
        continuation: Result<(Bytes, Option<Bytes>), Exception>,
        took_us: u64,
    ) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Phase::Packing { cargo, to, with_code, again } = &activation.phase else {
            return;
        };
        let (cargo, to, with_code, again) = (cargo.clone(), to.clone(), *with_code, *again);
        activation.profile.guest_us += took_us;
        let (continuation, code_bytes) = match continuation {
            Ok(taken) => taken,
            Err(why) => {
                let (line, column) = cargo.position();
                let why = if why.line == 0 { why.at_line(line, column) } else { why };
                return self.finish(now, session, Outcome::Threw(why));
            }
        };
        let code = activation.baggage.code;
        self.learn_state(code, continuation.len());
        if with_code && code_bytes.is_some() {
            self.codes.note_sent(to.id, code, &self.policy);
        }
        match (cargo, to.id == self.me.id) {
            (Cargo::Split(split), true) => self.split_here(now, session, &split, continuation),
            (Cargo::Sub { call, service, sub }, _) => self.push_frame(now, session, call, service, sub, continuation),
            (cargo, _) => self.hand(now, session, cargo, &to, continuation, code_bytes, again, None),
        }
    }

    /// Hands the chain over.
    #[allow(clippy::too_many_arguments, reason = "what a hop consists of")]
    pub(crate) fn hand(
        &mut self,
        now: Time,
        session: SessionId,
        cargo: Cargo,
        to: &Arc<NodeRef>,
        continuation: Bytes,
        code_bytes: Option<Bytes>,
        again: Again,
        instead: Option<Exception>,
    ) {
        self.close_profile(now, session);
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        activation.step = activation.step.saturating_add(1);
        if let Cargo::Split(split) = &cargo {
            let count = u16::try_from(split.count).unwrap_or(u16::MAX);
            activation.baggage.splits = activation.baggage.splits.saturating_add(count);
        }
        let custody = Custody {
            to: to.clone(),
            key: activation.key(),
            cargo,
            continuation,
            code_bytes,
            attempts: 0,
            retry_at: now,
            accepted: false,
            seeks: false,
            since: now,
            again,
            tried: Vec::new(),
            bound_to: None,
            instead,
        };
        self.activations.set_phase(session, Phase::Handing(custody));
        self.hand_again(now, session);
    }

    /// The hop as it goes out now: with what is left of the budget.
    pub(crate) fn hop_of(&self, now: Time, activation: &Activation, custody: &Custody) -> Encoded {
        let baggage = &activation.baggage;
        let (service, function, params, gather) = match &custody.cargo {
            Cargo::Call(call) => (call.service.clone(), call.function.clone(), call.params.clone(), 0),
            Cargo::Split(split) => {
                (Default::default(), Default::default(), Value::null(), u16::try_from(split.count).unwrap_or(u16::MAX))
            }
            // It never goes anywhere.
            Cargo::Sub { .. } => (Default::default(), Default::default(), Value::null(), 0),
        };
        let heartbeat_in_us = activation.heartbeat_at.since(now).saturating_sub(self.policy.heartbeat_hop_us);
        Message::Hop(Box::new(Hop {
            key: custody.key.clone(),
            attempt: custody.attempts.saturating_sub(1),
            budget: activation.budget_now(now),
            service,
            function,
            params,
            call: custody.cargo.number(),
            code: baggage.code,
            charter: baggage.charter.clone(),
            stack: baggage.stack.clone(),
            emitted: baggage.emitted,
            heartbeat_in_us,
            path: baggage.path.clone(),
            trace: baggage.trace.clone(),
            recording: baggage.recording.as_ref().map(Recording::to_wire),
            console: baggage.console.clone(),
            console_told: baggage.console_told,
            limits: baggage.limits,
            doubt: baggage.doubt,
            redone: baggage.redone.as_deref().map(|mark| mark.to_wire(now, self.policy.heartbeat_hop_us)),
            continuation_bytes: u32::try_from(custody.continuation.len()).unwrap_or(u32::MAX),
            splits: baggage.splits,
            merge: baggage.merge.clone(),
            gather,
            merged: baggage.merged.clone(),
            continuation: custody.continuation.clone(),
            code_bytes: custody.code_bytes.clone(),
        }))
        .encode()
    }

    /// The next node has taken the hop over. Only the node to which it was handed can say so.
    pub(crate) fn hop_accepted(&mut self, now: Time, from: NodeId, key: &StepKey) {
        if let Some(session) = self.activations.handing(key, from) {
            self.hand_over(now, session);
        }
    }

    /// The chain has been seen at a later step elsewhere: whoever was to take this hop over has done so, though it has not said so yet.
    pub(crate) fn seen_beyond(&mut self, now: Time, at: NodeId, key: &StepKey) {
        if at == self.me.id {
            return;
        }
        for session in self.activations.handing_up_to(key) {
            self.hand_over(now, session);
        }
    }

    fn hand_over(&mut self, now: Time, session: SessionId) {
        if let Some(activation) = self.activations.remove(session) {
            if let Phase::Handing(custody) = &activation.phase {
                self.origin.heard_at(&custody.key, &custody.to);
            }
            self.handed_over(now, activation);
        }
    }

    /// Nothing was done there, and the continuation is still here: so is the `try/catch` around the call (design, section 2).
    pub(crate) fn hop_refused(&mut self, now: Time, from: NodeId, key: &StepKey, why: Exception) {
        if let Some(session) = self.activations.handing(key, from) {
            self.take_back(now, session, why);
        }
    }

    /// Whether this is the latest sending of a hop that is still in custody.
    pub(crate) fn is_handing(&self, handed: Handed) -> bool {
        matches!(self.activations.get(handed.session).map(|activation| &activation.phase), Some(Phase::Handing(custody))
            if custody.key.step == handed.step && custody.attempts == handed.attempt)
    }

    pub(crate) fn hop_unreachable(&mut self, now: Time, session: SessionId) {
        let Some(activation) = self.activations.get(session) else {
            return;
        };
        let Phase::Handing(custody) = &activation.phase else {
            return;
        };
        let host = custody.to.name.clone();
        // If it went out once, that one may have arrived.
        let untouched = custody.attempts <= 1 && !custody.accepted;
        match untouched {
            true => self.try_elsewhere(now, session, unreachable(&host)),
            false => self.try_again_elsewhere(now, session, lost(&host)),
        }
    }

    /// It may have been done: it goes elsewhere only if it may be done again there.
    fn try_again_elsewhere(&mut self, now: Time, session: SessionId, why: Exception) {
        let why = Exception { unknown: why.unknown && !bug!(self.policy, LossDenied), ..why };
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Phase::Handing(custody) = &mut activation.phase else { return };
        match custody.again {
            Again::Nowhere if bug!(self.policy, DoneElsewhere) => {}
            Again::Nowhere => return self.take_back(now, session, why),
            Again::SameNode => custody.bound_to = Some(custody.to.name.clone()),
            Again::Anywhere => {}
        }
        self.try_elsewhere(now, session, why);
    }

    /// Another instance of the service may take the hop (rpc-chains section 3.9: a logical name is mapped to a backup).
    fn try_elsewhere(&mut self, now: Time, session: SessionId, why: Exception) {
        let tried_max = self.policy.instances_tried_max;
        let Some(activation) = self.activations.get_mut(session) else { return };
        let deadline = now.after(activation.budget_now(now).time_left_us());
        let Phase::Handing(custody) = &mut activation.phase else { return };
        custody.tried.push(custody.to.clone());
        let service = alloc::string::String::from(custody.cargo.service());
        if custody.tried.len() >= tried_max || service.is_empty() {
            return self.take_back(now, session, why);
        }
        custody.retry_at = deadline;
        custody.seeks = true;
        let step = custody.key.step;
        custody.instead.get_or_insert(why);
        let avoid = custody.tried.iter().map(|node| node.id).collect();
        self.activations.reset_timer(session);
        self.names.remove(&service);
        self.calls.put_aside_again(&service, Unresolved::Again { session, step });
        self.actions.push_back(Action::Resolve { service, avoid });
    }

    /// What looking the service up again has brought.
    pub(crate) fn hand_elsewhere(&mut self, now: Time, session: SessionId, step: u32, place: Option<&Instance>) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Phase::Handing(custody) = &activation.phase else { return };
        // It was taken or refused meanwhile, and this is another.
        if !custody.seeks || custody.key.step != step {
            return;
        }
        match place.map(host_of).filter(|to| custody.allows(to)) {
            None => {
                let why = custody.instead.clone().unwrap_or_else(|| unreachable(&custody.to.name));
                self.take_back(now, session, why);
            }
            Some(to) => {
                let custody =
                    Custody { to, attempts: 0, retry_at: now, accepted: false, seeks: false, ..custody.clone() };
                if custody.instead.as_ref().is_some_and(|why| why.unknown) {
                    let mark = activation.baggage.mark(now, &custody.key, custody.since);
                    self.second_times.note(now, mark, &self.policy);
                }
                self.activations.set_phase(session, Phase::Handing(custody));
                self.hand_again(now, session);
            }
        }
    }

    /// Whether a hop that looks for another instance may go there; of one that is over it does not matter.
    pub(crate) fn may_hand_to(&self, session: SessionId, place: Option<&Instance>) -> bool {
        match self.activations.get(session).map(|activation| &activation.phase) {
            Some(Phase::Handing(custody)) => place.is_some_and(|place| custody.allows(&host_of(place))),
            _ => true,
        }
    }

    /// Sends the hop, for the first time or again: it may or may not have arrived, and the same hop again cannot double an
    /// effect, since the node remembers its step.
    pub(crate) fn hand_again(&mut self, now: Time, session: SessionId) {
        let (attempts_max, timeout_us) = (self.policy.hop_attempts_max, self.policy.accept_timeout_us);
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Phase::Handing(custody) = &mut activation.phase else {
            return;
        };
        // Another instance is being looked for: the one before must not get it once more.
        if custody.seeks {
            return;
        }
        if custody.attempts >= attempts_max {
            let why = lost(&custody.to.name);
            return self.try_again_elsewhere(now, session, why);
        }
        custody.attempts += 1;
        custody.retry_at = now.after(timeout_us);
        let to = custody.to.clone();
        let receipt = Receipt::Hop(Handed { session, step: custody.key.step, attempt: custody.attempts });
        self.activations.reset_timer(session);
        let Some(activation) = self.activations.get(session) else { return };
        let Phase::Handing(custody) = &activation.phase else { return };
        let message = self.hop_of(now, activation, custody);
        self.actions.push_back(Action::Send { to, message, receipt, urgency: Urgency::Now, via: None });
    }

    pub(crate) fn take_back(&mut self, now: Time, session: SessionId, why: Exception) {
        let Some(Phase::Handing(custody)) = self.activations.set_phase(session, Phase::Live) else {
            return;
        };
        // The name may lead elsewhere next time (design, section 5).
        let place = self.names.remove(custody.cargo.service());
        // Whoever hosts no chains for others does not know the services of others.
        let proxy = place.and_then(|place| place.proxy).is_some_and(|proxy| proxy.id == custody.to.id);
        let no_host = why.name == names::RUNS_NO_GUESTS || (proxy && why.name == names::UNKNOWN_SERVICE);
        if let (Cargo::Call(call), true) = (&custody.cargo, no_host) {
            return self.stay_and_call(now, session, call.clone(), custody.continuation);
        }
        let (arrived_at_us, profile) = (self.unix_us(now), self.profile("", ""));
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        if let Cargo::Split(split) = &custody.cargo {
            // None of its branches has begun.
            let count = u16::try_from(split.count).unwrap_or(u16::MAX);
            activation.baggage.splits = activation.baggage.splits.saturating_sub(count);
            if why.name == names::RUNS_NO_GUESTS {
                activation.step = activation.step.saturating_sub(1);
                return self.split_here(now, session, &split.clone(), custody.continuation);
            }
        }
        activation.out.remove(&custody.cargo.number());
        activation.profile = StepTrace { step: activation.step, arrived_at_us, ..profile };
        // Who took it once and refuses it now has forgotten what came of it.
        let why = if custody.accepted { why.outcome_unknown() } else { why };
        // What came of it at another instance, where nothing was done, does not tell what may have been done since.
        let why = custody.instead.filter(|instead| instead.unknown || !why.unknown).unwrap_or(why);
        let why =
            why.calling(custody.cargo.service(), custody.cargo.function()).at(&custody.key, &activation.baggage.path);
        if why.unknown {
            // The chain may have gone on there: what its function does now may have been done by its first way.
            let mark = activation.baggage.mark(now, &custody.key, custody.since);
            self.second_times.note(now, mark, &self.policy);
        }
        self.resume(session, custody.cargo.number(), custody.continuation, Err(why));
    }
}

/// Where chains run that call it.
fn host_of(place: &Instance) -> Arc<NodeRef> {
    place.proxy.clone().unwrap_or_else(|| place.node.clone())
}
