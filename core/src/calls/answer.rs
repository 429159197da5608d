//! Delivers the results of calls to whoever waits for them.

use alloc::{format, sync::Arc, vec::Vec};
use catena_wire::{Brought, Exception, Fault, Message, NodeRef, StepKey, Value, names};

use super::{Calls, ReplyTo, Request};
use crate::{
    Action, Receipt, Urgency,
    ground::Ground,
    memory::{Fate, StepRecord},
    outbox::Event,
};

impl Calls {
    /// Delivers the result of a call that is over. The name of the call is added to an exception.
    pub(crate) fn answer(&mut self, ground: &mut Ground, mut request: Request, result: Result<Value, Exception>) {
        let result = match (result, request.fallback.take()) {
            (Err(why), Some(original)) if !why.unknown => Err(*original),
            (result, _) => result,
        };
        let brought = request.brings(request.hops_after(&result));
        let result = result.map_err(|why| why.calling(&request.service, &request.function));
        self.reply(ground, request.reply_to, result, brought);
    }

    /// Delivers a call's result, and what the call brings back besides.
    pub(crate) fn reply(
        &mut self,
        ground: &mut Ground,
        to: ReplyTo,
        result: Result<Value, Exception>,
        brought: Brought,
    ) {
        let here = ground.me.clone();
        let path = core::slice::from_ref(&here.name);
        match to {
            ReplyTo::Suspended(_) | ReplyTo::Guest { .. } => ground.out.tell(Event::Answered { to, result, brought }),
            ReplyTo::Peer { to, id } => {
                send_return(ground, &to, id, result.map_err(|why| why.at_step(0, path)), brought);
            }
            ReplyTo::Step(key) => {
                let result = result.map_err(|why| why.at(&key, path));
                for (to, id) in self.step_done(ground, &key, result.clone(), brought.clone()) {
                    send_return(ground, &to, id, result.clone(), brought.clone());
                }
            }
            ReplyTo::Api(id) => ground.out.ask(Action::CallDone(id, result)),
            ReplyTo::Delegator(right) => {
                let at = result.map(|_| ground.me.clone()).map_err(|why| why.at_step(0, path));
                ground.out.tell(Event::Handed { right, at });
            }
            ReplyTo::Right(right) => {
                let result = result.map(Some).map_err(|why| why.at_step(0, path));
                ground.out.tell(Event::FunctionEnded { right, result });
            }
            ReplyTo::Nobody(_) => {}
        }
    }

    /// The call of this step is over: its result is kept for repeats of the step. Returns who has asked for it so far.
    pub(super) fn step_done(
        &mut self,
        ground: &mut Ground,
        key: &StepKey,
        result: Result<Value, Exception>,
        brought: Brought,
    ) -> Vec<(Arc<NodeRef>, u64)> {
        let Some(StepRecord::Calling { fingerprint, reply_to, .. }) = ground.dedup.get(key) else { return Vec::new() };
        let (fate, waiting) = (Fate::returned(*fingerprint, result, brought), reply_to.clone());
        ground.dedup.finish(ground.clock.now(), key, fate, Vec::new(), &ground.policy);
        waiting.iter().for_each(|(to, id)| drop(self.asking.remove(&(to.id, *id))));
        waiting
    }
}

fn send_return(ground: &mut Ground, to: &Arc<NodeRef>, id: u64, result: Result<Value, Exception>, brought: Brought) {
    let receipt = Receipt::Return(to.clone(), id);
    ground.out.send(to, Message::Return(id, result.into(), brought), receipt, Urgency::Now);
}

/// A result is too large for the link to the caller: the caller gets an exception that says so instead.
pub(crate) fn result_too_large(ground: &mut Ground, to: &Arc<NodeRef>, id: u64, bytes: u64, bytes_max: u64) {
    let message = format!(
        "the result has {bytes} bytes, where a message may have {bytes_max}; the function has taken effect; let it answer in parts"
    );
    let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message).outcome_unknown();
    let why = why.at_step(0, core::slice::from_ref(&ground.me.name));
    ground.out.send(to, Message::Return(id, Err(why).into(), Brought::default()), Receipt::None, Urgency::Now);
}
