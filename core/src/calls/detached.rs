//! Calls that a chain of its own answers.

use alloc::{boxed::Box, string::String};
use catena_wire::{ChainId, Outcome, Value};

use super::{Call, Calls, Request, Stage};
use crate::{
    SubChain,
    allowance::Allowance,
    console::{carried_max, extend},
    ground::Ground,
    outbox::EndedDetached,
};

impl Calls {
    /// A service answered this call with a chain, which runs on its own from now on.
    pub(crate) fn detach(&mut self, ground: &mut Ground, chain: ChainId, request: Request, sub: SubChain) {
        self.insert(ground, request, Stage::Detached(chain, sub.catch));
    }

    /// A chain that ran on its own has ended: the call that it answers is over, unless a function takes the chain's exception.
    pub(crate) fn detached_ended(&mut self, ground: &mut Ground, ended: EndedDetached) {
        let Some((mut request, catch)) = self.take_detached(ground, ended.chain) else { return };
        let spent = request.budget.hops_left().saturating_sub(ended.hops_left);
        let left = request.budget.left(ground.now).without_hops(spent);
        extend(&mut request.console, ended.console, carried_max(&ground.policy));
        // Catching costs a hop like any other call; otherwise a service whose chains throw could call itself for ever.
        let catch = catch.zip(left.take_hop());
        let result = match (ended.outcome, catch) {
            (Outcome::Done(value), _) => Ok(value),
            // The same as for a chain that joins the calling one.
            (Outcome::Threw(why), None) => Err(why.calling(&request.service, "")),
            (Outcome::Threw(why), Some((function, budget))) => {
                let (params, budget) = (Value::encode(&why), Allowance::new(ground.now, budget));
                let fallback = Some(Box::new(why.calling(&request.service, "")));
                // Without a key: this is not the call that is remembered under the step's key, and must not be answered with that call's result.
                return self.dispatch(ground, Request { function, params, budget, fallback, key: None, ..request });
            }
        };
        let brought = request.brings(left.hops_left());
        self.reply(ground, request.reply_to, result, brought);
    }

    /// The call that this chain answers, and the function that takes the chain's exceptions.
    fn take_detached(&mut self, ground: &mut Ground, chain: ChainId) -> Option<(Request, Option<String>)> {
        let id = *self.detached.get(&chain)?;
        let Call { request, stage: Stage::Detached(_, catch), .. } = self.take(ground, id, |_| true)? else {
            return None;
        };
        Some((request, catch))
    }
}
