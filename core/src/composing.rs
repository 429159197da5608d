//! The chain stack (rpc-chains section 3.4): a service answers with a chain, which the chain that called becomes until it ends.

use alloc::{boxed::Box, format, string::String, sync::Arc};
use bytes::Bytes;
use catena_wire::{
    Budget, Charter, Exception, Fault, Frame, Listener, Message, Outcome, STACK_DEPTH_MAX, StepKey, StepLimits,
    StepTrace, Value, names,
};

use crate::{
    Action, Answer, Emitted, GuestCall, Node, Receipt, SessionId, SubChain, Time, Urgency,
    action::Again,
    activation::{Cargo, Landing, Phase},
    calls::{Apart, Asker, Request},
    console::{extend, lines_brought_max},
    node::Plan,
};

impl Node {
    /// The sub-chain takes over as soon as the state of the chain that called is here.
    pub(crate) fn join(&mut self, now: Time, session: SessionId, service: String, sub: SubChain) {
        let deep = self.check_depth(session);
        let Some(activation) = self.activations.get_mut(session) else { return };
        let (key, path) = (activation.arrived.clone(), activation.baggage.path.clone());
        let Phase::Landing(landing) = &mut activation.phase else { return };
        landing.service = service;
        landing.result = Some(match deep {
            Err(why) => Err(why.at(&key, &path)),
            Ok(()) => Ok(Answer::Chain(sub)),
        });
        self.resume_if_ready(now, session);
    }

    fn check_depth(&self, session: SessionId) -> Result<(), Exception> {
        let depth_max = self.policy.stack_depth_max.min(STACK_DEPTH_MAX);
        if self.activations.get(session).is_none_or(|activation| activation.baggage.stack.len() < depth_max) {
            return Ok(());
        }
        let message = format!("stack_depth_max is {depth_max} chains around a chain; does a service call itself?");
        Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message))
    }

    /// Whether a chain with which a service of this node answered this call can join: its function waits for nothing else.
    pub(crate) fn can_join(&self, session: SessionId, call: u32) -> bool {
        self.activations.get(session).is_some_and(|activation| {
            let waits = matches!(activation.phase, Phase::Live) && !activation.busy && activation.ready.is_empty();
            activation.baggage.charter.compose && waits && activation.out.iter().eq([&call])
        })
    }

    /// The chain that called is here already, and running: it is suspended to make room for the sub-chain.
    pub(crate) fn join_in_place(&mut self, now: Time, session: SessionId, call: u32, service: String, sub: SubChain) {
        self.close_in_place(now, session, call, 0);
        if let Err(why) = self.check_depth(session) {
            return self.settle(session, call, Err(why));
        }
        let Some(activation) = self.activations.get_mut(session) else { return };
        activation.busy = true;
        let (cargo, to) = (Cargo::Sub { call, service, sub }, self.me.clone());
        self.activations.set_phase(session, Phase::Packing { cargo, to, with_code: false, again: Again::Nowhere });
        self.suspend(session, None);
    }

    /// Begins the sub-chain in the place of the chain that called, which waits on the stack.
    pub(crate) fn push_frame(
        &mut self,
        now: Time,
        session: SessionId,
        call: u32,
        service: String,
        sub: SubChain,
        state: Bytes,
    ) {
        let me = (*self.me).clone();
        let Some(activation) = self.activations.get_mut(session) else { return };
        let (code, key) = (sub.code, activation.key());
        activation.baggage.stack.push(Frame {
            code: core::mem::replace(&mut activation.baggage.code, code),
            call,
            step: activation.step,
            emitted: core::mem::take(&mut activation.baggage.emitted),
            creator: me,
            service,
            catch: sub.catch,
            hears: sub.hears,
            limits: core::mem::take(&mut activation.baggage.limits),
            doubt: core::mem::take(&mut activation.baggage.doubt),
            continuation_bytes: u32::try_from(state.len()).unwrap_or(u32::MAX),
            continuation: state,
        });
        activation.out.clear();
        activation.busy = true;
        let started_at_ms = activation.baggage.charter.started_at_ms;
        let seed = key.chain.seed() ^ u64::from(key.step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.activations.set_phase(session, Phase::Live);
        if sub.hears {
            self.hearings.begin(now, key, &self.policy);
        }
        self.actions.push_back(Action::Begin {
            session,
            code,
            input: sub.input,
            started_at_ms,
            seed,
            limits: StepLimits::UNCHANGED,
        });
    }

    /// The function has ended: with a frame on the stack the enclosing chain goes on, right here.
    pub(crate) fn finish(&mut self, now: Time, session: SessionId, outcome: Outcome) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let dropped = bug!(self.policy, FrameDropped);
        let Some(frame) = activation.baggage.stack.pop().filter(|_| !dropped) else {
            return self.end(now, session, outcome);
        };
        let (step, path) = (activation.step, activation.baggage.path.clone());
        let outcome = activation.baggage.in_doubt(outcome);
        activation.baggage.code = frame.code;
        activation.baggage.limits = frame.limits;
        activation.baggage.doubt = frame.doubt;
        activation.baggage.emitted = frame.emitted;
        if frame.creator.id != self.me.id {
            // The enclosing chain's function has been there; the hop before may never have needed it.
            activation.creator = Some(Arc::new(frame.creator.clone()));
        }
        let result = match outcome {
            Outcome::Done(value) => Ok(value),
            Outcome::Threw(why) => {
                // What its function threw itself is no step's: it is the call that failed which it answers. What is in doubt is.
                let own = why.target.is_none() && !why.unknown;
                let step = if own { frame.step } else { step };
                let key = StepKey { step, ..activation.arrived.clone() };
                Err(why.calling(&frame.service, "").at(&key, &path))
            }
        };
        let Some(session) = self.renew(session) else { return };
        match (result, &frame.catch) {
            (Err(why), Some(catch)) => {
                let catch = catch.clone();
                self.throw_to_creator(now, session, frame, catch, why);
            }
            (result, _) => self.resume(session, frame.call, frame.continuation, result),
        }
    }

    /// The guest of this session has ended and another takes its place: under a new name, so that nothing is mixed up.
    fn renew(&mut self, session: SessionId) -> Option<SessionId> {
        self.actions.push_back(Action::Discard(session));
        let mut activation = self.activations.remove(session)?;
        if !activation.out.is_empty() {
            self.calls.let_go(session);
        }
        activation.out.clear();
        activation.ready.clear();
        activation.busy = true;
        activation.phase = Phase::Live;
        let arrived = activation.arrived.clone();
        let renewed = self.activations.insert(activation);
        self.steps.run_on(&arrived, renewed);
        Some(renewed)
    }

    pub(crate) fn resume(
        &mut self,
        session: SessionId,
        call: u32,
        continuation: Bytes,
        result: Result<Value, Exception>,
    ) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let result = activation.baggage.told(result);
        activation.busy = true;
        let (code, limits) = (activation.baggage.code, activation.baggage.limits);
        self.activations.set_phase(session, Phase::Live);
        // The shell may have dropped the function, or may never have had that of an enclosing chain.
        self.actions.push_back(Action::CheckCode { code, bytes: None });
        self.actions.push_back(Action::Resume { session, code, continuation, call, result, limits });
    }

    /// An uncaught exception of a sub-chain goes to its creator first (rpc-chains section 3.8): as a hop of the enclosing
    /// chain to a function of the same service, which answers in the sub-chain's place.
    fn throw_to_creator(&mut self, now: Time, session: SessionId, frame: Frame, catch: String, why: Exception) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Some(budget) = activation.budget_now(now).take_hop() else {
            return self.resume(session, frame.call, frame.continuation, Err(why));
        };
        activation.budget = budget;
        activation.budget_at = now;
        let params = Value::encode(&why);
        let call = GuestCall {
            call: frame.call,
            service: frame.service,
            function: catch,
            params,
            line: why.line,
            column: why.column,
        };
        if frame.creator.id == self.me.id {
            activation.step = activation.step.saturating_add(1);
            return self.stay_and_call(now, session, call, frame.continuation);
        }
        let to = Arc::new(frame.creator);
        self.hand(now, session, Cargo::Call(call), &to, frame.continuation, None, Again::Nowhere, Some(why));
    }

    /// Waits here, suspended, for a call that is made from here.
    pub(crate) fn stay_and_call(&mut self, now: Time, session: SessionId, call: GuestCall, continuation: Bytes) {
        let (arrived_at_us, profile) = (self.unix_us(now), self.profile(&call.service, &call.function));
        let may_chain = self.may_answer_with_chain(&call.service, &call.function);
        let Some(activation) = self.activations.get_mut(session) else { return };
        activation.profile = StepTrace { step: activation.step, arrived_at_us, ..profile };
        let (asker, budget) = (Asker::Landing(session), activation.lend_all(now, may_chain));
        let request = Request::new(asker, call.service.clone(), call.function, call.params, now, budget);
        let credentials = activation.baggage.charter.credentials.clone();
        let redone = activation.baggage.redone.clone();
        let request = Request { key: Some(activation.key()), credentials, redone, ..request };
        let landing = Landing { service: call.service, ..Landing::here(call.call, continuation) };
        activation.out.clear();
        let code = activation.baggage.code;
        self.activations.set_phase(session, Phase::Landing(landing));
        // The shell may have dropped the function: it is fetched while the call is made.
        self.actions.push_back(Action::CheckCode { code, bytes: None });
        self.dispatch(now, request);
    }

    /// Runs a chain that a service answered with on its own: its result comes back here, and goes to who called.
    pub(crate) fn run_apart(&mut self, now: Time, request: Request, sub: SubChain) {
        let budget = request.budget_now(now);
        let plan = Plan { credentials: request.credentials.clone(), ..Plan::new(budget) };
        match self.run(now, sub.code, sub.input, plan) {
            Err(why) => self.answer(now, request, Err(why)),
            Ok(chain) => {
                let heard_as = request.key.clone().filter(|_| sub.hears);
                self.origin.set_apart(chain.number, heard_as, lines_brought_max(&self.policy));
                self.calls.run_apart(chain.number, Apart { request, catch: sub.catch });
            }
        }
    }

    /// Chains that ran on their own have ended.
    pub(crate) fn settle_apart(&mut self, now: Time) {
        while let Some((trial, outcome)) = self.origin.take_trial() {
            self.trials.learn(trial, &outcome);
        }
        while let Some(ended) = self.origin.take_apart() {
            let Some(Apart { mut request, catch }) = self.calls.take_apart(ended.number) else { continue };
            let hops_left = ended.hops_left.min(request.budget.hops_left());
            request.budget = Budget::new(request.budget.time_left_us(), hops_left);
            extend(&mut request.console, ended.console, lines_brought_max(&self.policy));
            // A call like any other, or a service whose chains throw could call itself for ever.
            let catch = catch.zip(request.budget.take_hop());
            let result = match (ended.outcome, catch) {
                (Outcome::Done(value), _) => Ok(value),
                (Outcome::Threw(why), None) => Err(self.behind(&request.asker, why)),
                (Outcome::Threw(why), Some((catch, budget))) => {
                    let params = Value::encode(&why);
                    let request = Request { budget, ..request };
                    // Not the call that the step was: who remembers that by its key must not answer with its result.
                    self.dispatch(now, Request { function: catch, params, key: None, ..request });
                    continue;
                }
            };
            let brought = request.brings(hops_left);
            self.answer_with(now, request.asker, result, brought);
        }
    }

    /// An intermediate answer: to the origin, or to the creator of the sub-chain if that wants it.
    pub(crate) fn emit(&mut self, now: Time, session: SessionId, value: Value) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let (key, number) = (activation.key(), activation.baggage.emitted);
        activation.baggage.emitted = number.saturating_add(1);
        let Charter { origin, entry, .. } = activation.baggage.charter.clone();
        let arrived = activation.arrived.clone();
        let (hearer, to, via) = match activation.baggage.listener() {
            Listener::Nobody => return,
            Listener::Creator(creator, to) => (Arc::new(creator), to, None),
            Listener::Origin => (Arc::new(origin.clone()), 0, self.way_to(&origin, entry.as_ref())),
        };
        let partial = Message::Partial { key: key.clone(), number, value, to };
        if hearer.id == self.me.id {
            return self.on_message(now, &hearer, partial);
        }
        let emitted = Emitted { arrived, key, number, to_origin: to == 0, origin, entry };
        let (receipt, urgency) = (Receipt::Partial(Box::new(emitted)), Urgency::Now);
        self.actions.push_back(Action::Send { to: hearer, message: partial.encode(), receipt, urgency, via });
    }
}
