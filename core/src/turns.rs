//! What a guest did in its turn, and where its calls go.

use alloc::{format, vec::Vec};
use catena_wire::{Exception, Fault, Outcome, StepTrace, Value, names};

use crate::{
    Action, GuestCall, GuestSplit, Node, SessionId, Time, Turn,
    activation::{Activation, Cargo, Phase},
    calls::{Asker, Request},
};

impl Node {
    /// The guest has returned: its answers and lines go out first, then its end or its calls.
    pub(crate) fn take_turn(&mut self, now: Time, session: SessionId, turn: Turn) {
        // A turn that nobody waits for is a leftover of a stay that is over.
        if !matches!(self.activations.get(session), Some(Activation { phase: Phase::Live, busy: true, .. })) {
            return;
        }
        self.log(now, session, turn.logs);
        self.tell_lines_of_recorded(now, session);
        for value in turn.emits {
            self.emit(now, session, value);
        }
        if let Some(activation) = self.activations.get_mut(session) {
            activation.busy = false;
        }
        match turn.end {
            None => self.go_on(now, session, turn.calls, turn.splits),
            Some(result) => {
                let lent = self.hops_for_each(now, session, turn.calls.len());
                for call in turn.calls {
                    self.call_beside(now, session, call, lent, true);
                }
                // On one machine too, a call that was started goes on when nobody awaits it.
                if self.activations.get(session).is_some_and(|activation| !activation.out.is_empty()) {
                    self.calls.let_go(session);
                }
                self.finish(now, session, result.into());
            }
        }
    }

    /// The one rule that decides where a chain is (design, section 2): it moves when it waits for exactly one call.
    pub(crate) fn go_on(&mut self, now: Time, session: SessionId, calls: Vec<GuestCall>, mut splits: Vec<GuestSplit>) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let waits_for = activation.out.len() + calls.len() + splits.len();
        activation.out.extend(calls.iter().map(|call| call.call).chain(splits.iter().map(|split| split.call)));
        // A guest may number its calls alike; they count all the same.
        let out = activation.out.len().max(calls.len() + splits.len());
        if out == 0 {
            let why = "the function waits for something that no call will settle; await a call, or return";
            return self.finish(now, session, Outcome::Threw(Exception::new(names::STALLED, Fault::Guest, why)));
        }
        if out > self.policy.calls_per_chain_max {
            let message = format!(
                "{out} calls side by side, where calls_per_chain_max is {}; await some of them first",
                self.policy.calls_per_chain_max
            );
            let line = calls.last().map_or((0, 0), |call| (call.line, call.column));
            let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).at_line(line.0, line.1);
            return self.finish(now, session, Outcome::Threw(why));
        }
        let lone = waits_for == 1;
        let split = if splits.len() == 1 { splits.pop() } else { None };
        // Until all have gone out the guest is told of none: it may have to be suspended.
        activation.busy = true;
        let lent = self.hops_for_each(now, session, calls.len());
        for call in calls {
            if lone && !self.services.contains_key(&call.service) && self.moves(session, &call) {
                return self.move_to(now, session, call);
            }
            self.call_beside(now, session, call, lent, false);
        }
        let Some(activation) = self.activations.get_mut(session) else { return };
        activation.busy = false;
        for split in splits {
            let why = "splits cannot run beside each other; await one first, or make one split of them";
            let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, why).at_line(split.line, split.column);
            self.settle(session, split.call, Err(why));
        }
        match split {
            Some(split) => self.split(now, session, split, lone),
            None => self.hand_in(session),
        }
    }

    fn hops_for_each(&self, now: Time, session: SessionId, calls: usize) -> u32 {
        self.activations.get(session).map_or(0, |activation| activation.hops_for_each(now, calls))
    }

    /// A call made from here while the chain stays: in place if the service is, else by plain call. If it may become a chain
    /// of its own it is lent so many hops, and brings back what it has not spent.
    pub(crate) fn call_beside(&mut self, now: Time, session: SessionId, call: GuestCall, lent: u32, unheard: bool) {
        let (unix_us, profile) = (self.unix_us(now), self.profile(&call.service, &call.function));
        let lent = if self.may_answer_with_chain(&call.service, &call.function) { lent } else { 0 };
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        activation.step = activation.step.saturating_add(1);
        let (step, budget) = (activation.step, activation.budget_now(now).take_hop());
        let Some(budget) = budget else {
            return self.out_of_hops(now, session, &Cargo::Call(call));
        };
        activation.budget = budget;
        activation.budget_at = now;
        let lent = activation.lend(now, lent);
        if activation.baggage.trace.is_some() {
            let profile = StepTrace {
                step,
                arrived_at_us: unix_us,
                params_bytes: call.params.len_bytes() as u64,
                in_place: true,
                ..profile
            };
            activation.in_place.insert(call.call, profile);
        }
        let (key, credentials) = (Some(activation.key()), activation.baggage.charter.credentials.clone());
        let redone = activation.baggage.redone.clone();
        let asker = if unheard { Asker::Nobody } else { Asker::Guest { session, call: call.call, step } };
        let GuestCall { service, function, params, .. } = call;
        let request = Request::new(asker, service, function, params, now, lent);
        self.dispatch(now, Request { key, credentials, redone, ..request });
    }

    /// Ends the chain, whatever its function would do about it: it may be in a loop.
    pub(crate) fn out_of_hops(&mut self, now: Time, session: SessionId, cargo: &Cargo) {
        let (line, column) = cargo.position();
        let message = "the chain has made all the calls that its hop budget allows; give it more, or look for a loop";
        let why = Exception::new(names::HOP_BUDGET_EXCEEDED, Fault::Guest, message)
            .calling(cargo.service(), cargo.function())
            .at_line(line, column);
        self.end(now, session, Outcome::Threw(why));
    }

    /// The chain goes where its one call goes.
    pub(crate) fn move_to(&mut self, now: Time, session: SessionId, call: GuestCall) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let left = activation.budget_now(now);
        let Some(budget) = left.take_hop().or(bug!(self.policy, HopsForFree).then_some(left)) else {
            // It is this step that cannot be made.
            activation.step = activation.step.saturating_add(u32::from(!bug!(self.policy, StepBefore)));
            return self.out_of_hops(now, session, &Cargo::Call(call));
        };
        activation.budget = budget;
        activation.budget_at = now;
        activation.busy = false;
        self.find_and_pack(session, Cargo::Call(call));
    }

    /// A result for a live guest, which takes them one at a time.
    pub(crate) fn settle(&mut self, session: SessionId, call: u32, result: Result<Value, Exception>) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        if !activation.out.contains(&call) || activation.ready.iter().any(|(ready, _)| *ready == call) {
            return;
        }
        let (step, path) = (activation.step, &activation.baggage.path);
        activation.ready.push_back((call, result.map_err(|why| why.at_step(step, path))));
        self.hand_in(session);
    }

    fn hand_in(&mut self, session: SessionId) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        if activation.busy || !matches!(activation.phase, Phase::Live) {
            return;
        }
        let Some((call, result)) = activation.ready.pop_front() else { return };
        let result = activation.baggage.told(result);
        activation.out.remove(&call);
        activation.busy = true;
        self.actions.push_back(Action::Settle { session, call, result });
    }

    pub(crate) fn close_in_place(&mut self, now: Time, session: SessionId, call: u32, service_us: u64) {
        let left_at_us = self.unix_us(now);
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Some(profile) = activation.in_place.remove(&call) else {
            return;
        };
        activation.note(StepTrace { left_at_us, service_us, ..profile });
    }
}
