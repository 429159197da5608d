//! Service functions that have ended, and chains that services answer with.

use catena_wire::{BlobBytes, Budget, Exception, Outcome, Value};

use super::Node;
use crate::{
    Answer, Plan, SubChain, Ticket, Time,
    calls::Request,
    chain::{extend, lines_brought_max},
    origin::EndedDetached,
};

impl Node {
    /// A service function has read so many bytes of blobs; if it has read any, this has to be said before [`Node::on_service_done`].
    pub fn on_blobs_read(&mut self, ticket: Ticket, blobs: BlobBytes) {
        self.calls.blobs_read(ticket, blobs);
    }

    /// A service function has ended, after `took_us`.
    pub fn on_service_done(&mut self, now: Time, ticket: Ticket, result: Result<Answer, Exception>, took_us: u64) {
        self.at(now, |node| node.calls.service_done(&mut node.ground, ticket, result, took_us));
    }

    /// A service of this node answered a call with a chain: it joins the chain that called, or runs on its own.
    pub(super) fn sub_chain(&mut self, request: Request, sub: SubChain) {
        let Some((request, sub)) = self.chains.join(&mut self.ground, request, sub) else { return };
        let plan = Plan { credentials: request.credentials.clone(), ..Plan::new(request.budget_now(self.ground.now)) };
        match self.begin(request.by, sub.number, sub.code, sub.input.clone(), plan) {
            // The service function itself has run, and may have taken effect.
            Err(why) => self.calls.answer(&mut self.ground, request, Err(why.outcome_unknown())),
            Ok(chain) => {
                let heard_as = request.key.clone().filter(|_| sub.hears);
                self.origin.detach(chain, heard_as, lines_brought_max(&self.ground.policy));
                self.calls.detach(&mut self.ground, chain, request, sub);
            }
        }
    }

    /// Chains that ran on their own have ended: the calls that they answer are over.
    pub(super) fn settle_detached(&mut self) {
        while let Some(ended) = self.origin.take_ended() {
            self.detached_ended(ended);
            self.route();
        }
    }

    fn detached_ended(&mut self, ended: EndedDetached) {
        if let Some(step) = ended.heard_as {
            self.ground.out.ask(crate::Action::HeardEnd(step));
        }
        let Some((mut request, catch)) = self.calls.take_detached(&mut self.ground, ended.chain) else { return };
        let hops_left = ended.hops_left.min(request.budget.hops_left());
        request.budget = Budget::new(request.budget.time_left_us(), hops_left);
        extend(&mut request.console, ended.console, lines_brought_max(&self.ground.policy));
        // Catching costs a hop like any other call; otherwise a service whose chains throw could call itself for ever.
        let catch = catch.zip(request.budget.take_hop());
        let result = match (ended.outcome, catch) {
            (Outcome::Done(value), _) => Ok(value),
            // As for a chain that joins the calling one.
            (Outcome::Threw(why), None) => Err(why.calling(&request.service, "")),
            (Outcome::Threw(why), Some((function, budget))) => {
                let params = Value::encode(&why);
                // Without a key: this is not the call that is remembered under the step's key, and must not be answered with that call's result.
                let request = Request { function, params, budget, key: None, ..request };
                return self.calls.dispatch(&mut self.ground, request);
            }
        };
        let brought = request.brings(hops_left);
        self.calls.reply(&mut self.ground, request.reply_to, result, brought);
    }
}
