//! The chain stack (rpc-chains section 3.4): a service answers with a sub-chain, which runs in place of the calling chain until it ends.

use alloc::{boxed::Box, format, string::String, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, Fault, Frame, Message, Outcome, STACK_DEPTH_MAX, StepKey, StepLimits, Value, names};

use super::{
    Chains,
    activation::{Activation, Awaits, Cargo, Departure, HandOff, Phase, Ready},
    console::carry,
};
use crate::{
    Action, GuestCall, Receipt, RetryScope, SessionId, SubChain, Urgency,
    calls::{ReplyTo, Request},
    delivery::Delivery,
    ground::Ground,
};

impl Chains {
    /// A service of this node answered a call with a chain, which joins the calling chain if this allows it and waits for nothing else. Otherwise returns the
    /// call: the sub-chain has to run on its own.
    pub(crate) fn join(&mut self, ground: &mut Ground, request: Request, sub: SubChain) -> Option<(Request, SubChain)> {
        let (ReplyTo::Suspended(session) | ReplyTo::Guest { session, .. }) = request.reply_to else {
            return Some((request, sub));
        };
        let compose = ground.policy.compose;
        let Some(activation) = self.get_mut(session).filter(|chain| compose && can_join(chain, &request.reply_to))
        else {
            return Some((request, sub));
        };
        let deep = check_depth(ground, activation);
        if let (Err(_), Some(key)) = (&deep, &request.key) {
            ground.listeners.forget(&mut ground.out, key);
        }
        activation.budget.give_back(request.budget.hops_left());
        let (key, path) = (activation.arrived.clone(), activation.state.path.clone());
        match request.reply_to {
            ReplyTo::Guest { call, step, .. } => {
                // There are lines if a chain that ran on its own threw, and its catch function answered with this one.
                activation.close_call(ground.unix_us(), call, 0, request.blobs);
                carry(ground, activation, step, request.console);
                match deep {
                    Err(why) => self.settle(ground, session, call, Err(why)),
                    // The calling chain is suspended, to make room for the sub-chain.
                    Ok(()) => {
                        let departure = Departure::SubChain { call, step, service: request.service, sub };
                        self.suspend(ground, session, departure, None);
                    }
                }
            }
            _ => {
                // The sub-chain takes over once the state of the calling chain is here.
                activation.note_service(request.service_us, request.blobs);
                if let Phase::Suspended(suspended) = &mut activation.phase {
                    suspended.awaits = match deep {
                        Ok(()) => Awaits::SubChain(request.service, sub),
                        Err(why) => Awaits::Result(Err(Box::new(why.at(&key, &path)))),
                    };
                }
                self.resume_if_ready(ground, session);
            }
        }
        None
    }

    /// Begins the sub-chain with which a service answered this call, made at this step, in place of the calling chain, which waits on the stack.
    #[allow(clippy::too_many_arguments, reason = "what a frame consists of")]
    pub(super) fn push_frame(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        (call, step): (u32, u32),
        service: String,
        sub: SubChain,
        continuation: Bytes,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let (code, chain, by) = (sub.code, activation.chain(), activation.by);
        let state = &mut activation.state;
        state.stack.push(Frame {
            code: core::mem::replace(&mut state.code, code),
            call,
            step,
            emitted: core::mem::take(&mut state.emitted),
            creator: (*ground.me).clone(),
            service,
            catch: sub.catch,
            hears: sub.hears,
            limits: core::mem::take(&mut state.limits),
            uncertain: core::mem::take(&mut state.uncertain),
            continuation_bytes: u32::try_from(continuation.len()).unwrap_or(u32::MAX),
            continuation,
        });
        activation.calls.out.clear();
        let started_at_ms = state.header.started_at_ms;
        let seed = chain.seed() ^ u64::from(step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.set_phase(session, Phase::Running);
        let limits = StepLimits::UNCHANGED;
        ground.out.ask(Action::Begin { session, code, input: sub.input, started_at_ms, seed, limits, by });
    }

    /// The function has ended. If there is a frame on the stack, the enclosing chain goes on right here; otherwise the whole chain ends.
    pub(super) fn finish(&mut self, ground: &mut Ground, session: SessionId, outcome: Outcome) {
        let Some(activation) = self.get_mut(session) else { return };
        let dropped = bug!(ground.policy, FrameDropped);
        let Some(frame) = activation.state.stack.pop().filter(|_| !dropped) else {
            return self.end(ground, session, outcome);
        };
        let (step, path) = (activation.step, activation.state.path.clone());
        let outcome = activation.state.conclude(outcome);
        let state = &mut activation.state;
        state.code = frame.code;
        state.limits = frame.limits;
        state.uncertain = frame.uncertain;
        state.emitted = frame.emitted;
        let began = StepKey { step: frame.step, ..activation.arrived.clone() };
        if frame.creator.id != ground.me.id {
            // The creator's node has had the enclosing chain's function; the previous hop's node may never have needed it.
            activation.creator = Some(Arc::new(frame.creator.clone()));
        }
        if frame.hears {
            let creator = Arc::new(frame.creator.clone());
            ground.out.send(&creator, Message::SubChainEnded(began.clone()), Receipt::None, Urgency::Lazy);
        }
        let result = match outcome {
            Outcome::Done(value) => Ok(value),
            Outcome::Threw(why) => {
                // The function's own exception is attributed to the call that the sub-chain answers; a call's, or one of unknown outcome, to the last step.
                let own = why.target.is_none() && !why.unknown;
                let key = if own { began } else { StepKey { step, ..began } };
                Err(why.calling(&frame.service, "").at(&key, &path))
            }
        };
        let Some(session) = self.renew(ground, session) else { return };
        match (result, &frame.catch) {
            (Err(why), Some(catch)) => {
                let catch = catch.clone();
                self.throw_to_creator(ground, session, frame, catch, why);
            }
            (result, _) => self.resume(ground, session, frame.call, frame.continuation, result),
        }
    }

    /// The guest of this session has ended and another takes its place. It gets a session number of its own, so that nothing meant for the first one reaches it.
    fn renew(&mut self, ground: &mut Ground, session: SessionId) -> Option<SessionId> {
        self.let_calls_go(ground, session);
        ground.out.ask(Action::Discard(session));
        let mut activation = self.remove(ground, session)?;
        activation.calls.out.clear();
        activation.calls.ready = Ready::default();
        activation.calls.reads.clear();
        activation.phase = Phase::Running;
        let arrived = activation.arrived.clone();
        let renewed = self.insert(activation);
        ground.dedup.run_on(&arrived, renewed);
        Some(renewed)
    }

    /// An uncaught exception of a sub-chain goes to its creator first (rpc-chains section 3.8): as a hop of the enclosing
    /// chain to a function of the same service, which answers in the sub-chain's place.
    fn throw_to_creator(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        frame: Frame,
        catch: String,
        why: Exception,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let Some(budget) = activation.budget.left(ground.now).take_hop() else {
            return self.resume(ground, session, frame.call, frame.continuation, Err(why));
        };
        activation.budget.set(ground.now, budget);
        let params = Value::encode(&why);
        let (service, line, column) = (frame.service, why.line, why.column);
        let call = GuestCall { call: frame.call, service, function: catch, params, line, column };
        if frame.creator.id == ground.me.id {
            activation.step = activation.step.saturating_add(1);
            return self.stay_and_call(ground, session, call, frame.continuation, Some(Box::new(why)));
        }
        let delivery = Delivery::new(Arc::new(frame.creator), RetryScope::Nowhere);
        let hand_off = HandOff::new(Cargo::Call(call), delivery, frame.continuation);
        self.hand(ground, session, hand_off.or_told(why));
    }
}

fn can_join(activation: &Activation, to: &ReplyTo) -> bool {
    let waits = match (to, &activation.phase) {
        (ReplyTo::Guest { call, .. }, Phase::Waiting) => {
            activation.calls.ready.is_empty() && activation.calls.out.iter().eq([call])
        }
        (ReplyTo::Suspended(_), Phase::Suspended(_)) => true,
        _ => false,
    };
    waits && activation.calls.sets.is_empty() && activation.state.header.compose
}

fn check_depth(ground: &Ground, activation: &Activation) -> Result<(), Exception> {
    let depth_max = ground.policy.stack_depth_max.min(STACK_DEPTH_MAX);
    if activation.state.stack.len() < depth_max {
        return Ok(());
    }
    let message = format!("stack_depth_max is {depth_max} chains around a chain; does a service call itself?");
    Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message))
}
