//! Service functions that have ended, and chains that services answer with.

use catena_wire::{BlobBytes, Exception, StepKey};

use super::Node;
use crate::{Answer, Plan, SubChain, Ticket, Time, calls::Request, console::carried_max};

impl Node {
    /// A service function has read these bytes of blobs; if it has read any, this has to be called before [`Node::on_service_done`].
    pub fn on_blobs_read(&mut self, ticket: Ticket, blobs: BlobBytes) {
        self.calls.blobs_read(ticket, blobs);
    }

    /// A service function has ended, after `took_us`.
    pub fn on_service_done(&mut self, now: Time, ticket: Ticket, result: Result<Answer, Exception>, took_us: u64) {
        self.at(now, |node| node.calls.service_done(&mut node.ground, ticket, result, took_us));
    }

    /// Whether the sub-chain with which a service of this node answers this step has begun, or is about to, and its intermediate answers come here: from
    /// [`Node::on_service_done`] to [`crate::Action::HeardEnd`].
    #[must_use]
    pub fn hears(&self, step: &StepKey) -> bool {
        self.ground.listeners.listens(step)
    }

    /// How many functions of a service run here.
    #[must_use]
    pub fn running(&self, service: &str) -> usize {
        self.calls.running(service)
    }

    /// A service of this node answered a call with a chain: it joins the chain that called, or runs on its own.
    pub(super) fn sub_chain(&mut self, request: Request, sub: SubChain) {
        let Some((request, sub)) = self.chains.join(&mut self.ground, request, sub) else { return };
        let plan = Plan { credentials: request.credentials.clone(), ..Plan::new(request.budget.left(self.ground.now)) };
        match self.begin(request.by, sub.number, sub.code, sub.input.clone(), plan) {
            // The service function itself has run, and may have taken effect.
            Err(why) => {
                if let Some(key) = &request.key {
                    self.ground.listeners.forget(&mut self.ground.out, key);
                }
                self.calls.answer(&mut self.ground, request, Err(why.outcome_unknown()));
            }
            Ok(chain) => {
                let heard_as = request.key.clone().filter(|_| sub.hears);
                self.origin.detach(chain, heard_as, carried_max(&self.ground.policy).0);
                self.calls.detach(&mut self.ground, chain, request, sub);
            }
        }
    }
}
