//! What a guest did in its turn, and where its calls go.

use alloc::{boxed::Box, format, vec::Vec};
use catena_wire::{Brought, Budget, Exception, Fault, Mode, NodeRef, Outcome, StepTrace, Value, What, names};

use super::{
    Chains,
    activation::{Activation, Awaits, Cargo, Phase, Suspended, kept_bytes},
    console::{carry, log, tell_lines},
    end::emit,
    recording::{record, turned},
};
use crate::{
    Action, GuestCall, GuestSplit, Instance, SessionId, Time, Turn,
    calls::{ReplyTo, Request},
    ground::Ground,
    outbox::Event,
};

impl Chains {
    pub(crate) fn on_turn(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        turn: Result<Turn, Exception>,
        took_us: u64,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        activation.note_guest(took_us);
        // In any other phase this is a late report, which nobody waits for.
        if !matches!(activation.phase, Phase::Running) {
            return;
        }
        let turn = match turn {
            Ok(turn) => turn,
            Err(broken) => {
                let broken = activation.stopped_for(broken);
                record(ground, activation, || What::Turned(Vec::new()));
                return self.finish(ground, session, Outcome::Threw(broken));
            }
        };
        record(ground, activation, || turned(&turn));
        // Answers and console lines go out before the end or the calls of the turn.
        log(ground, activation, turn.logs);
        if activation.state.recording.is_some() && activation.chain().origin == ground.me.id {
            // A recorded chain at its origin may be stepped through in a debugger, which shows lines as they are logged.
            tell_lines(ground, activation);
        }
        for value in turn.emits {
            emit(ground, activation, value);
        }
        match turn.end {
            None => {
                turn.asks.into_iter().for_each(|ask| self.ask(ground, session, ask));
                turn.reads.into_iter().for_each(|read| self.read(ground, session, read));
                self.sets_left(ground, session, &turn.leaves.into_iter().collect());
                self.go_on(ground, session, turn.calls, turn.splits);
            }
            Some(result) => {
                let lent = activation.hops_for_each(ground.now, turn.calls.len());
                for call in turn.calls {
                    self.call_beside(ground, session, call, lent, false);
                }
                self.let_calls_go(ground, session);
                self.finish(ground, session, result.into());
            }
        }
    }

    /// Calls that were started go on although nobody awaits them any more, as they would on one machine.
    pub(super) fn let_calls_go(&self, ground: &mut Ground, session: SessionId) {
        if let Some(activation) = self.get(session) {
            ground.out.tell(Event::Unawaited(session, activation.chain()));
        }
    }

    /// The one rule that decides where a chain is (design, section 2): it moves when it waits for exactly one call.
    fn go_on(&mut self, ground: &mut Ground, session: SessionId, calls: Vec<GuestCall>, mut splits: Vec<GuestSplit>) {
        let Some(activation) = self.get_mut(session).filter(|activation| matches!(activation.phase, Phase::Running))
        else {
            return;
        };
        let waits_for = activation.calls.out.len() + calls.len() + splits.len();
        if let Err(why) = check_count(waits_for, ground.policy.calls_per_chain_max, &calls) {
            let why = activation.stopped_for(why);
            return self.finish(ground, session, Outcome::Threw(why));
        }
        activation.calls.out.extend(splits.iter().map(|split| split.call));
        // An open reply set is one more thing that the function waits for.
        let lone = waits_for == 1 && activation.calls.sets.is_empty();
        let split = if splits.len() == 1 { splits.pop() } else { None };
        let lent = activation.hops_for_each(ground.now, calls.len());
        // The phase stays `Running` until all calls have gone out, so that no result is handed in before: the guest may have to be suspended.
        for call in calls {
            let elsewhere = !ground.directory.serves(&call.service);
            if lone && elsewhere && self.get(session).is_some_and(|activation| moves(ground, activation, &call)) {
                return self.move_to(ground, session, call);
            }
            self.call_beside(ground, session, call, lent, true);
        }
        if self.set_phase(session, Phase::Waiting).is_none() {
            return;
        }
        for split in splits {
            let why = "splits cannot run beside each other; await one first, or make one split of them";
            let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, why).at_line(split.line, split.column);
            self.settle(ground, session, split.call, Err(why));
        }
        match split {
            Some(split) => self.split(ground, session, split, lone),
            None => self.hand_in(ground, session),
        }
    }

    /// Makes a call while the chain stays here: in place if this node serves it, else as a plain call. If the service may answer with a chain, the call is lent
    /// `lent` hops, and brings back those that it has not spent.
    fn call_beside(&mut self, ground: &mut Ground, session: SessionId, call: GuestCall, lent: u32, awaited: bool) {
        let lent = if ground.directory.may_answer_with_chain(&call.service, &call.function) { lent } else { 0 };
        let Some(activation) = self.take_hop(ground, session, &call) else { return };
        let lent = activation.budget.lend(ground.now, lent);
        open_profile(ground, activation, &call);
        let reply_to = if awaited {
            activation.calls.out.insert(call.call);
            ReplyTo::Guest { session, call: call.call, step: activation.step }
        } else {
            ReplyTo::Nobody(activation.chain())
        };
        ground.out.tell(Event::Call(request_of(activation, reply_to, call, ground.now, lent)));
    }

    /// Counts one more step, which is made from here. Each costs a hop, so that no function can go on calling for ever.
    pub(super) fn take_hop(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        call: &GuestCall,
    ) -> Option<&mut Activation> {
        let activation = self.get_mut(session)?;
        activation.step = activation.step.saturating_add(1);
        let Some(budget) = activation.budget.left(ground.now).take_hop() else {
            self.out_of_hops(ground, session, &Cargo::Call(call.clone()));
            return None;
        };
        activation.budget.set(ground.now, budget);
        self.get_mut(session)
    }

    /// Ends the chain for lack of hops. Its function is not told, since it may be in a loop. This step is not made, and calls under way beside it stop.
    pub(super) fn out_of_hops(&mut self, ground: &mut Ground, session: SessionId, cargo: &Cargo) {
        let Some(activation) = self.get_mut(session) else { return };
        activation.calls.out.remove(&cargo.number());
        let (line, column) = cargo.position();
        let message = "the chain has made all the calls that its hop budget allows; give it more, or look for a loop";
        let why = Exception::new(names::HOP_BUDGET_EXCEEDED, Fault::Guest, message)
            .calling(cargo.service(), cargo.function())
            .at_line(line, column);
        let why = activation.stopped_for(why);
        self.end(ground, session, Outcome::Threw(why));
    }

    fn move_to(&mut self, ground: &mut Ground, session: SessionId, call: GuestCall) {
        let Some(activation) = self.get_mut(session) else { return };
        let left = activation.budget.left(ground.now);
        let Some(budget) = left.take_hop().or(bug!(ground.policy, HopsForFree).then_some(left)) else {
            // The exception names the step that cannot be made.
            activation.step = activation.step.saturating_add(u32::from(!bug!(ground.policy, StepBefore)));
            return self.out_of_hops(ground, session, &Cargo::Call(call));
        };
        activation.budget.set(ground.now, budget);
        activation.calls.out.insert(call.call);
        self.find_and_depart(ground, session, Cargo::Call(call));
    }

    /// A call made by a chain that is here has ended.
    pub(crate) fn answered(
        &mut self,
        ground: &mut Ground,
        to: &ReplyTo,
        result: Result<Value, Exception>,
        brought: Brought,
    ) {
        let (ReplyTo::Suspended(session) | ReplyTo::Guest { session, .. }) = *to else { return };
        let Some(activation) = self.get_mut(session) else { return };
        activation.budget.give_back(brought.hops_left);
        match *to {
            ReplyTo::Guest { call, step, .. } => {
                // Lines that the call brought come first: the function may log more once it has the result.
                carry(ground, activation, step, brought.console);
                activation.close_call(ground.unix_us(), call, brought.service_us, brought.blobs);
                let result = result.map_err(|why| activation.behind(step, why));
                self.settle(ground, session, call, result);
            }
            _ => {
                carry(ground, activation, activation.step, brought.console);
                activation.note_service(brought.service_us, brought.blobs);
                // The step is that of the call, which may be later than the one by which the chain came.
                let result = result.map_err(|why| activation.behind(activation.step, why));
                let result = self.with_room(ground, session, result).map_err(Box::new);
                if let Some(Activation { phase: Phase::Suspended(suspended), .. }) = self.get_mut(session)
                    && suspended.calls()
                {
                    suspended.awaits = Awaits::Result(result);
                    self.recount(session);
                    self.resume_if_ready(ground, session);
                }
            }
        }
    }

    /// Now that its place is known, the function turns out to be one that may answer with a chain: its call is lent hops for that.
    pub(crate) fn lend_late(&mut self, now: Time, request: &mut Request, place: &Instance) {
        if let ReplyTo::Guest { session, .. } | ReplyTo::Suspended(session) = request.reply_to
            && request.budget.hops_left() == 0
            && place.kinds.chaining.contains(&request.function)
            && let Some(activation) = self.get_mut(session)
        {
            let share = activation.hops_for_each(now, 0);
            request.budget.give_back(activation.budget.lend(now, share).hops_left());
        }
    }

    /// Notes in the profile which node serves a call that the chain makes without moving.
    pub(crate) fn served_by(&mut self, session: SessionId, call: u32, node: &NodeRef) {
        if let Some(profile) = self.get_mut(session).and_then(|activation| activation.calls.profiles.get_mut(&call)) {
            profile.served_by = Some(node.name.clone());
        }
    }

    /// A result of a call that was made. If it has to be kept and there is no room for it, the function is told that instead.
    fn with_room(
        &self,
        ground: &Ground,
        session: SessionId,
        result: Result<Value, Exception>,
    ) -> Result<Value, Exception> {
        let Some(activation) = self.get(session).filter(|activation| activation.keeps_results()) else { return result };
        let room = self.check_bytes(ground, activation.by, kept_bytes(&result));
        room.map_err(Exception::outcome_unknown).and(result)
    }

    /// Queues a result for a live guest, which is handed results one at a time.
    pub(super) fn settle(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        call: u32,
        result: Result<Value, Exception>,
    ) {
        let result = self.with_room(ground, session, result);
        self.settle_counted(ground, session, call, result);
    }

    /// The same for a result that was counted before: replies that a function has been told as read are not lost for want of room.
    pub(super) fn settle_counted(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        call: u32,
        result: Result<Value, Exception>,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let result = result.map_err(|why| why.at(&activation.key(), &activation.state.path));
        let calls = &mut activation.calls;
        if !calls.out.contains(&call) || calls.ready.has(call) {
            return;
        }
        calls.ready.push(call, result);
        match activation.phase {
            Phase::Waiting => self.hand_in(ground, session),
            _ => self.recount(session),
        }
    }

    pub(super) fn hand_in(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get_mut(session) else { return };
        if !matches!(activation.phase, Phase::Waiting) {
            return;
        }
        let Some((call, result)) = activation.calls.ready.pop() else { return };
        let result = activation.state.observe(result);
        activation.calls.out.remove(&call);
        activation.calls.reads.remove(&call);
        self.set_phase(session, Phase::Running);
        ground.out.ask(Action::Settle { session, call, result });
    }

    /// Makes the call from here, and waits for its result with the guest suspended. If this node knows that it was not made, the guest is told any `fallback`.
    pub(super) fn stay_and_call(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        call: GuestCall,
        continuation: bytes::Bytes,
        fallback: Option<Box<Exception>>,
    ) {
        let may_chain = ground.directory.may_answer_with_chain(&call.service, &call.function);
        let Some(activation) = self.get_mut(session) else { return };
        let traced = activation.state.trace.is_some();
        activation.profile = ground.profile(traced, activation.step, &call.service, &call.function);
        let (reply_to, budget) = (ReplyTo::Suspended(session), activation.lend_all(ground.now, may_chain));
        activation.calls.out.clear();
        let suspended = Suspended::here(call.call, continuation, Awaits::Call);
        // Leaves out the chain's own path, which is put in front again later.
        let beyond = |why: Box<Exception>| {
            let path = why.path.iter().skip(activation.state.path.len()).cloned().collect();
            Box::new(Exception { path, ..*why })
        };
        let fallback = fallback.map(beyond);
        let request = Request { fallback, ..request_of(activation, reply_to, call, ground.now, budget) };
        self.set_phase(session, Phase::Suspended(suspended));
        ground.out.tell(Event::Call(request));
    }
}

/// Whether the chain moves to the service of its only call.
fn moves(ground: &Ground, activation: &Activation, call: &GuestCall) -> bool {
    match activation.state.header.mode {
        Mode::Chain => true,
        Mode::Interactive => false,
        Mode::Adaptive => ground.directory.moving_is_quicker(activation.state.code, &call.service, &call.function),
    }
}

/// The request for a call that a chain makes without moving.
pub(super) fn request_of(
    activation: &Activation,
    reply_to: ReplyTo,
    call: GuestCall,
    now: Time,
    budget: Budget,
) -> Request {
    let GuestCall { service, function, params, .. } = call;
    let (key, credentials) = (Some(activation.key()), activation.state.header.credentials.clone());
    let duplicate = activation.state.duplicate.clone();
    let request = Request::new(activation.by, reply_to, service, function, params, now, budget);
    Request { key, credentials, duplicate, ..request }
}

/// Opens the profile of a call that a chain makes without moving.
pub(super) fn open_profile(ground: &Ground, activation: &mut Activation, call: &GuestCall) {
    let traced = activation.state.trace.is_some();
    if let Some(profile) = ground.profile(traced, activation.step, &call.service, &call.function) {
        let params_bytes = call.params.len_bytes() as u64;
        activation.calls.profiles.insert(call.call, StepTrace { params_bytes, in_place: true, ..*profile });
    }
}

/// Checks that a function waits for at least one call, and for no more than `max`.
fn check_count(out: usize, max: usize, calls: &[GuestCall]) -> Result<(), Exception> {
    if out == 0 {
        let why = "the function waits for something that no call will settle; await a call, or return";
        return Err(Exception::new(names::STALLED, Fault::Guest, why));
    }
    if out <= max {
        return Ok(());
    }
    let message = format!("{out} calls side by side, where calls_per_chain_max is {max}; await some of them first");
    let line = calls.last().map_or((0, 0), |call| (call.line, call.column));
    Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).at_line(line.0, line.1))
}
