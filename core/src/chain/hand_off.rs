//! The hop out: kept here until the next node accepts it, taken back if it does not (design, section 2).

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{
    ChainId, Encoded, Exception, Hash, LeavingHop, NodeId, NodeRef, Outcome, Relocation, StepKey, Value, names,
};

use super::{
    Chains,
    activation::{Activation, Cargo, Departure, HandOff, Phase, Recording},
};
use crate::{
    Action, Handed, Instance, Receipt, RetryScope, SessionId, Undelivered,
    delivery::{Delivery, Next, unreachable},
    directory::{Known, Waiter, not_served},
    ground::Ground,
    memory::Fate,
    outbox::Event,
};

impl Chains {
    /// Moves the chain to the service that `cargo` is for, once its place is known.
    pub(super) fn find_and_depart(&mut self, ground: &mut Ground, session: SessionId, cargo: Cargo) {
        let Some(activation) = self.get(session) else { return };
        let (step, service) = (activation.step, String::from(cargo.service()));
        match ground.directory.names.get(ground.now, &service).cloned() {
            Some(Known::At(place)) => {
                let (to, scope) = host_of(&place, cargo.function());
                self.depart(ground, session, to, scope, cargo);
            }
            Some(Known::Absent(why)) => {
                self.set_phase(session, Phase::LookingUp(cargo));
                self.not_found(ground, session, why);
            }
            None => {
                self.set_phase(session, Phase::LookingUp(cargo));
                ground.look_up(&service, Waiter::Chain(session, step));
            }
        }
    }

    /// Moves the chain to `to`. If the call's outcome is unknown there, it may be repeated within `scope`.
    pub(super) fn depart(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        to: Arc<NodeRef>,
        scope: RetryScope,
        cargo: Cargo,
    ) {
        let Some(activation) = self.get(session) else { return };
        let code = activation.state.code;
        let with_code = to.id != ground.me.id && !ground.codes.was_sent(to.id, code);
        self.suspend(ground, session, Departure::To(to, scope, cargo), with_code.then_some(code));
    }

    pub(super) fn suspend(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        departure: Departure,
        with_code: Option<Hash>,
    ) {
        self.set_phase(session, Phase::Suspending(departure));
        ground.out.ask_first(Action::Suspend { session, with_code });
    }

    pub(crate) fn suspended(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        continuation: Result<(Bytes, Option<Bytes>), Exception>,
        took_us: u64,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let Phase::Suspending(departure) = &activation.phase else { return };
        let (continuation, code_bytes) = match continuation {
            Ok(taken) => taken,
            Err(why) => {
                let why = match departure {
                    Departure::To(_, _, cargo) if why.line == 0 => {
                        let (line, column) = cargo.position();
                        why.at_line(line, column)
                    }
                    _ => why,
                };
                let why = activation.stopped_for(why);
                activation.note_guest(took_us);
                return self.finish(ground, session, Outcome::Threw(why));
            }
        };
        let code = activation.state.code;
        activation.note_guest(took_us);
        let Phase::Suspending(departure) = core::mem::replace(&mut activation.phase, Phase::Waiting) else { return };
        ground.directory.placement.learn_state(code, continuation.len());
        match departure {
            Departure::SubChain { call, step, service, sub } => {
                self.push_frame(ground, session, (call, step), service, sub, continuation);
            }
            Departure::To(to, _, Cargo::Split(split)) if to.id == ground.me.id => {
                self.split_here(ground, session, &split, continuation);
            }
            Departure::To(to, scope, cargo) => {
                if code_bytes.is_some() {
                    ground.codes.note_sent(to.id, code, &ground.policy);
                }
                let hand_off = HandOff::new(cargo, Delivery::new(to, scope), continuation);
                self.hand(ground, session, hand_off.with_code(code_bytes, &ground.policy));
            }
        }
    }

    pub(super) fn hand(&mut self, ground: &mut Ground, session: SessionId, hand_off: HandOff) {
        let Some(activation) = self.get_mut(session) else { return };
        activation.close_profile(ground.unix_us());
        activation.step = activation.step.saturating_add(1);
        if let Cargo::Split(split) = &hand_off.cargo {
            activation.state.splits = activation.state.splits.saturating_add(split.branches());
        }
        self.set_phase(session, Phase::HandingOff(Box::new(hand_off)));
        self.send_hop(ground, session);
    }

    /// Sends the hop, for the first time or again. A hop that has already arrived does not take effect twice, since the node remembers its step.
    pub(super) fn send_hop(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get_mut(session) else { return };
        let Activation { step, phase: Phase::HandingOff(hand_off), .. } = activation else { return };
        let (to, attempt) = (hand_off.to().clone(), hand_off.send(ground.now, &ground.policy));
        let handed = Handed { session, step: *step, to: to.id, attempt };
        let Some(message) = hop_of(ground, activation) else { return };
        self.reset_timer(session);
        ground.out.send_encoded(to, message, Receipt::Hop(handed), None);
    }

    /// The next node has accepted the hop. Only the node that it was sent to can say so.
    pub(crate) fn hop_accepted(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, key: &StepKey) {
        let anyones = self.handing_off.get(key).copied().filter(|_| bug!(ground.policy, StrangersAccept));
        match anyones.or_else(|| self.handing_off(key, from.id)) {
            Some(session) => self.hand_over(ground, session),
            // The acceptance comes too late: the chain was stopped, and that node does not know it.
            None if ground.fences.is_stopped(key.chain, ground.me.id) && from.id != key.chain.origin => {
                ground.answer_cancelled(key.chain, [from.clone()]);
            }
            None => {}
        }
    }

    /// Node `at` shows that the chain has got as far as `key`: an implicit acknowledgement of this branch's hops up to that step. To know the chain's whole id,
    /// whose number nobody can guess, is the right to give it.
    pub(crate) fn implicit_ack(&mut self, ground: &mut Ground, at: NodeId, key: &StepKey) {
        if at == ground.me.id {
            return;
        }
        let sessions = match bug!(ground.policy, AnyBranchAccepts) {
            true => self.handing_off.values().copied().collect(),
            false => self.handing_off_up_to(key),
        };
        for session in sessions {
            self.hand_over(ground, session);
        }
    }

    /// The chain is over: an implicit acknowledgement of all its hops from here. Whether another way of it still runs at the next node is that node's to find out.
    /// A split does not count as one: its branches begin here only once it is acknowledged, so the chain cannot have ended by this way.
    pub(super) fn hand_over_all(&mut self, ground: &mut Ground, chain: ChainId) {
        let hop =
            |phase: &Phase| matches!(phase, Phase::HandingOff(hand_off) if matches!(hand_off.cargo, Cargo::Call(_)));
        let mut sessions: Vec<_> = ground.dedup.of_chain(chain).filter_map(|(_, record)| record.session()).collect();
        sessions.retain(|session| self.get(*session).is_some_and(|activation| hop(&activation.phase)));
        sessions.into_iter().for_each(|session| self.hand_over(ground, session));
    }

    fn hand_over(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(mut activation) = self.remove(ground, session) else { return };
        let Phase::HandingOff(hand_off) = &mut activation.phase else { return };
        hand_off.delivery.taken();
        let (to, nodes) = (hand_off.to().clone(), hand_off.delivery.nodes());
        ground.out.tell(Event::Seen(activation.key(), to));
        let children = self.children_of(ground, &activation);
        let (key, fate) = (activation.arrived.clone(), Fate::Forwarded(activation.step, Some((activation, children))));
        ground.dedup.finish(ground.clock.now(), &key, fate, nodes, &ground.policy);
    }

    /// The hop was refused, with nothing done unless `why` is unknown. The continuation is here, and so is the call's `try/catch` (design, section 2).
    pub(crate) fn hop_refused(&mut self, ground: &mut Ground, from: NodeId, key: &StepKey, why: Exception) {
        if let Some(session) = self.handing_off(key, from) {
            self.take_back(ground, session, why);
        }
    }

    /// The node that was sent the hop does not serve it, and did nothing.
    pub(crate) fn hop_elsewhere(&mut self, ground: &mut Ground, from: NodeId, key: &StepKey, relocation: Relocation) {
        let Some(session) = self.handing_off(key, from) else { return };
        let Some(activation) = self.get_mut(session) else { return };
        let Phase::HandingOff(hand_off) = &mut activation.phase else { return };
        if hand_off.seeks_instance() {
            return;
        }
        let service = String::from(hand_off.cargo.service());
        if ground.directory.names.is_proxy(&service, from) {
            // The node is a proxy that hosts no chains for others.
            let why = not_served(&hand_off.to().name, &service);
            return self.take_back(ground, session, why);
        }
        // No node has begun the step, and those that were sent it refused it for good. It becomes a new step, which costs a hop, so that it may return to them.
        let now = ground.now;
        let spent = activation.budget.left(now).take_hop().filter(|_| !hand_off.delivery.may_be_done_before());
        match hand_off.delivery.elsewhere(&service, spent.is_some(), &ground.policy) {
            Err(why) => self.take_back(ground, session, why),
            Ok(()) => {
                let excluded = hand_off.seek_instance();
                let renumber = |activation: &mut Activation| {
                    if let Some(budget) = spent {
                        activation.budget.set(now, budget);
                        activation.step = activation.step.saturating_add(1);
                    }
                    activation.step
                };
                let Some(step) = self.update(session, renumber) else { return };
                let waiter = Waiter::Chain(session, step);
                if let Some(place) = ground.follow(&service, from, relocation, waiter, excluded) {
                    self.resolved(ground, (session, step), &Ok(place));
                }
            }
        }
    }

    /// A sending of the hop failed. News of an earlier sending says no more than whether that one left; news of an earlier hop is ignored.
    pub(crate) fn hop_undelivered(&mut self, ground: &mut Ground, handed: Handed, how: Undelivered) {
        let Some(Activation { step, phase: Phase::HandingOff(hand_off), .. }) = self.get_mut(handed.session) else {
            return;
        };
        if *step != handed.step || hand_off.to().id != handed.to {
            return;
        }
        if hand_off.delivery.attempts() == handed.attempt {
            self.hop_failed(ground, handed.session, how);
        } else if how != Undelivered::Lost {
            hand_off.delivery.not_sent();
        }
    }

    /// Whether a hop that waits to be sent is still wanted: its chain is still being handed off at this step, to this node.
    pub(crate) fn is_to_go(&self, to: NodeId, handed: &Handed) -> bool {
        let Some(Activation { step, phase: Phase::HandingOff(hand_off), .. }) = self.get(handed.session) else {
            return false;
        };
        !hand_off.seeks_instance() && *step == handed.step && hand_off.to().id == to
    }

    pub(crate) fn link_lost(&mut self, ground: &mut Ground, node: NodeId) {
        let (first, last) = ((node, SessionId(0)), (node, SessionId(u64::MAX)));
        let sessions: Vec<_> = self.handing_off_to.range(first..=last).map(|(_, session)| *session).collect();
        sessions.into_iter().for_each(|session| self.hop_failed(ground, session, Undelivered::Lost));
    }

    /// The hop did not get through, or was not acknowledged in time.
    pub(super) fn hop_failed(&mut self, ground: &mut Ground, session: SessionId, how: Undelivered) {
        let Some(Activation { step, phase: Phase::HandingOff(hand_off), .. }) = self.get_mut(session) else { return };
        if hand_off.seeks_instance() {
            return;
        }
        if let Undelivered::TooLarge { bytes, bytes_max } = how {
            let why = hand_off.delivery.too_large(bytes, bytes_max);
            return self.take_back(ground, session, why);
        }
        let service = String::from(hand_off.cargo.service());
        match hand_off.delivery.failed(how, true, &ground.policy) {
            Next::SendAgain => self.send_hop(ground, session),
            Next::Seek if !service.is_empty() => {
                let (step, excluded) = (*step, hand_off.seek_instance());
                self.reset_timer(session);
                ground.directory.names.forget(&service);
                ground.directory.lookups.look_up(&mut ground.out, &service, Waiter::Chain(session, step), excluded);
            }
            Next::Seek => {
                let why = hand_off.delivery.exhausted(&unreachable(&hand_off.to().name));
                self.take_back(ground, session, why);
            }
            Next::GiveUp(why) => self.take_back(ground, session, why),
        }
    }

    /// No node serves what the chain was to move to.
    fn not_found(&mut self, ground: &mut Ground, session: SessionId, why: Exception) {
        let Some(activation) = self.get_mut(session) else { return };
        let Phase::LookingUp(cargo) = &activation.phase else { return };
        let number = cargo.number();
        let why = why.calling(cargo.service(), cargo.function());
        // The exception names the step that could not be made.
        activation.step = activation.step.saturating_add(1);
        let why = why.at(&activation.key(), &activation.state.path);
        self.set_phase(session, Phase::Waiting);
        self.settle(ground, session, number, Err(why));
    }

    /// The result of looking up a name for this chain.
    pub(crate) fn resolved(
        &mut self,
        ground: &mut Ground,
        (session, step): (SessionId, u32),
        place: &Result<Instance, Exception>,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        // Otherwise the hop for which the look-up was made has been accepted or refused meanwhile.
        if activation.step != step {
            return;
        }
        match &activation.phase {
            Phase::LookingUp(cargo) => match place {
                Ok(place) => {
                    let (to, scope) = host_of(place, cargo.function());
                    let cargo = cargo.clone();
                    self.depart(ground, session, to, scope, cargo);
                }
                Err(why) => self.not_found(ground, session, why.clone()),
            },
            Phase::HandingOff(hand_off) if hand_off.seeks_instance() => {
                let function = hand_off.cargo.function();
                let found = place.as_ref().ok().map(|place| host_of(place, function));
                match found.filter(|(to, _)| hand_off.delivery.allows(to)) {
                    Some((to, scope)) => self.redirect(ground, session, to, scope),
                    None => {
                        let unreachable = unreachable(&hand_off.to().name);
                        let why = hand_off.delivery.exhausted(place.as_ref().err().unwrap_or(&unreachable));
                        self.take_back(ground, session, why);
                    }
                }
            }
            _ => {}
        }
    }

    /// Sends the hop to another instance of the service (rpc-chains section 3.9: a logical name is mapped to a backup).
    fn redirect(&mut self, ground: &mut Ground, session: SessionId, to: Arc<NodeRef>, scope: RetryScope) {
        let Some(activation) = self.get_mut(session) else { return };
        let Phase::HandingOff(hand_off) = &activation.phase else { return };
        if hand_off.delivery.may_be_done() {
            let nodes = hand_off.delivery.nodes();
            if bug!(ground.policy, DuplicateReplaced) {
                activation.state.duplicate = None;
            }
            go_on_without(ground, activation, nodes);
        }
        self.update(session, |activation| {
            if let Phase::HandingOff(hand_off) = &mut activation.phase {
                hand_off.delivery.redirect(to, scope);
            }
        });
        self.send_hop(ground, session);
    }

    fn take_back(&mut self, ground: &mut Ground, session: SessionId, why: Exception) {
        let Some(Phase::HandingOff(hand_off)) = self.set_phase(session, Phase::Waiting) else { return };
        let HandOff { cargo, continuation, delivery, fallback, .. } = *hand_off;
        // A proxy that hosts no chains for others does not know the services of others.
        let proxy = ground.directory.names.is_proxy(cargo.service(), delivery.to().id);
        // The name may lead elsewhere next time (design, section 5).
        ground.directory.names.forget(cargo.service());
        let no_host = why.name == names::RUNS_NO_GUESTS || (proxy && why.name == names::UNKNOWN_SERVICE);
        if let (Cargo::Call(call), true) = (&cargo, no_host) {
            return self.stay_and_call(ground, session, call.clone(), continuation, fallback);
        }
        let Some(activation) = self.get_mut(session) else { return };
        if let Cargo::Split(split) = &cargo {
            // None of its branches has begun.
            activation.state.splits = activation.state.splits.saturating_sub(split.branches());
            if why.name == names::RUNS_NO_GUESTS {
                activation.step = activation.step.saturating_sub(1);
                return self.split_here(ground, session, split, continuation);
            }
        }
        activation.calls.out.remove(&cargo.number());
        activation.profile = ground.profile(activation.state.trace.is_some(), activation.step, "", "");
        let why = if bug!(ground.policy, LossOutlived) { why } else { delivery.conclude(why) };
        let why = fallback.filter(|_| !why.unknown).map_or(why, |fallback| *fallback);
        let why = why.calling(cargo.service(), cargo.function()).at(&activation.key(), &activation.state.path);
        if why.unknown {
            go_on_without(ground, activation, delivery.nodes());
        }
        self.resume(ground, session, cargo.number(), continuation, Err(why));
    }
}

/// These nodes may have done this step and gone on: the chain is a possible duplicate from here, since its first way may have done all that follows.
fn go_on_without(ground: &mut Ground, activation: &mut Activation, nodes: Vec<Arc<NodeRef>>) {
    let key = activation.key();
    let duplicate = activation.state.begin_way(&key, ground.me.id);
    ground.note_duplicate(activation.by, Some(duplicate));
    ground.give_up(activation.by, key.chain, nodes);
}

/// The hop as it goes out now: with what is left of the budget.
pub(super) fn hop_of(ground: &Ground, activation: &Activation) -> Option<Encoded> {
    let Phase::HandingOff(hand_off) = &activation.phase else { return None };
    let state = &activation.state;
    let nothing = Value::null();
    let (service, function, params, branches) = match &hand_off.cargo {
        Cargo::Call(call) => (call.service.as_str(), call.function.as_str(), &call.params, 0),
        Cargo::Split(split) => ("", "", &nothing, split.branches()),
    };
    let heartbeat_in_us = activation.heartbeat_at.since(ground.now).saturating_sub(ground.policy.heartbeat_hop_us);
    let hop = LeavingHop {
        key: &activation.key(),
        age_us: hand_off.delivery.age_us(ground.now),
        budget: activation.budget.left(ground.now),
        service,
        function,
        params,
        call: hand_off.cargo.number(),
        code: state.code,
        header: &state.header,
        stack: &state.stack,
        emitted: state.emitted,
        heartbeat_in_us,
        path: &state.path,
        trace: &state.trace,
        recording: state.recording.as_deref().map(Recording::as_wire),
        unreached: activation.unreached.as_wire(ground.now),
        console: &state.console,
        console_told: state.console_told,
        limits: state.limits,
        uncertain: state.uncertain,
        duplicate: state.duplicate.as_deref().filter(|_| !bug!(ground.policy, DuplicateDropped)),
        continuation_bytes: u32::try_from(hand_off.continuation.len()).unwrap_or(u32::MAX),
        splits: state.splits,
        merge: state.merge.as_deref(),
        branches,
        merged: &state.merged,
        continuation: &hand_off.continuation,
        code_bytes: hand_off.code_bytes.as_ref(),
    };
    Some(hop.encode())
}

/// Where a chain that calls this function runs, and within which scope the call may be repeated.
fn host_of(place: &Instance, function: &str) -> (Arc<NodeRef>, RetryScope) {
    match (&place.proxy, RetryScope::of(&place.kinds, function)) {
        // The proxy remembers neither steps across a crash nor which instance it asked.
        (Some(proxy), RetryScope::SameNode) => (proxy.clone(), RetryScope::Nowhere),
        (Some(proxy), scope) => (proxy.clone(), scope),
        (None, scope) => (place.node.clone(), scope),
    }
}
