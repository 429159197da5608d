//! Results of calls, to whoever waits for them.

use alloc::{format, sync::Arc};
use catena_wire::{Brought, Exception, Fault, Message, NodeRef, Value, names};

use super::{Calls, ReplyTo, Request};
use crate::{
    Action, Receipt, Urgency,
    ground::Ground,
    memory::{Fate, StepRecord},
    outbox::Event,
};

impl Calls {
    /// The result of a call that is over. If it came to nothing, that says which call it was.
    pub(crate) fn answer(&mut self, ground: &mut Ground, mut request: Request, result: Result<Value, Exception>) {
        let brought = request.brings(request.hops_after(&result));
        let result = result.map_err(|why| why.calling(&request.service, &request.function));
        self.reply(ground, request.reply_to, result, brought);
    }

    /// The result of a call, and what it brings beside that.
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
                let Some(StepRecord::Calling { fingerprint, reply_to }) = ground.dedup.get(&key) else { return };
                let reply_to = reply_to.clone();
                let fate = Fate::returned(*fingerprint, result.clone(), brought.clone());
                ground.dedup.finish(ground.clock.now(), &key, fate, alloc::vec![], &ground.policy);
                for (to, id) in reply_to {
                    self.asking.remove(&(to.id, id));
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
}

fn send_return(ground: &mut Ground, to: &Arc<NodeRef>, id: u64, result: Result<Value, Exception>, brought: Brought) {
    let receipt = Receipt::Return(to.clone(), id);
    ground.out.send(to, Message::Return(id, result.into(), brought), receipt, Urgency::Now);
}

/// A result that is larger than a link to the caller carries: the caller is told so instead.
pub(crate) fn result_too_large(ground: &mut Ground, to: &Arc<NodeRef>, id: u64, bytes: u64, bytes_max: u64) {
    let message = format!(
        "the result has {bytes} bytes, where a message may have {bytes_max}; the function has taken effect; let it answer in parts"
    );
    let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message).outcome_unknown();
    let why = why.at_step(0, core::slice::from_ref(&ground.me.name));
    ground.out.send(to, Message::Return(id, Err(why).into(), Brought::default()), Receipt::None, Urgency::Now);
}
