//! What users of a node ask of it: to begin chains and calls, and to stop them.

use alloc::string::ToString;
use bytes::Bytes;
use catena_wire::{Budget, ChainId, Exception, Hash, Value};

use super::Node;
use crate::{
    CallId, Plan, Time,
    calls::{Owner, ReplyTo, Request},
    collections::Party,
};

impl Node {
    /// Begins a chain: the function starts here and hops from its first call on.
    ///
    /// Its number has to be drawn at random, so that nobody can guess it. Answers come as [`crate::Action::Reply`]. The budget is
    /// narrowed to this node's policy.
    ///
    /// # Errors
    /// `Overloaded` when `chains_started_max` or `activations_max` chains are under way.
    pub fn run(&mut self, now: Time, number: u128, code: Hash, input: Value, plan: Plan) -> Result<ChainId, Exception> {
        self.at(now, |node| node.begin(Party::Own, number, code, input, plan))
    }

    /// Begins a chain on behalf of this peer, or of this node itself.
    pub(super) fn begin(
        &mut self,
        by: Party,
        number: u128,
        code: Hash,
        input: Value,
        plan: Plan,
    ) -> Result<ChainId, Exception> {
        let chain = ChainId { origin: self.ground.me.id, number };
        let own = self.calls.detached_for(by);
        let (plan, trial) = self.origin.admit(&self.ground, (by, own), chain, code, plan)?;
        let deadline = self.ground.now.after(plan.budget.time_left_us());
        self.chains.begin(&mut self.ground, by, chain, code, input, plan)?;
        self.origin.begin(&self.ground, chain, deadline, trial);
        Ok(chain)
    }

    /// Stops a chain, or a call with many answers, that was begun here, wherever it is by now. It ends as `Cancelled`; if it has ended, nothing happens.
    pub fn cancel(&mut self, now: Time, chain: ChainId) {
        self.at(now, |node| {
            if node.sets.cancel(&mut node.ground, chain) {
                return;
            }
            let hosts = node.origin.hosts(chain);
            // If the chain is here, its latest step is known, although its next heartbeat is not due yet.
            if let Some(key) = node.chains.last_step(&node.ground, chain) {
                node.origin.heard_at(&key, &node.ground.me);
            }
            if node.origin.cancel(&mut node.ground, chain) {
                node.chains.stop(&mut node.ground, Party::Own, chain, hosts);
            }
        });
    }

    /// The holder of the reply set has gone: the chain is stopped, and what still arrives from it is dropped.
    pub fn forget(&mut self, now: Time, chain: ChainId) {
        self.at(now, |node| node.forget_chain(chain));
    }

    /// Makes a plain call; its answer comes as [`crate::Action::CallDone`].
    pub fn call(
        &mut self,
        now: Time,
        service: &str,
        function: &str,
        params: Value,
        budget: Budget,
        credentials: Option<Value>,
    ) -> CallId {
        self.calls_begun += 1;
        let id = CallId(self.calls_begun);
        let budget = budget.narrowed_to(self.ground.policy.budget_max);
        let (service, function) = (service.to_string(), function.to_string());
        let request = Request::new(Party::Own, ReplyTo::Api(id), service, function, params, now, budget);
        self.at(now, |node| node.calls.dispatch(&mut node.ground, Request { credentials, ..request }));
        id
    }

    /// Withdraws a plain call: no answer will come, and the node that was asked is told to stop.
    pub fn withdraw(&mut self, now: Time, call: CallId) {
        self.at(now, |node| node.calls.abandon(&mut node.ground, &Owner::Api(call)));
    }

    /// Uploads a function to the repository, if there is one that has not had it from here (rpc-chains section 3.2: uploaded once).
    pub fn offer(&mut self, code: Hash, bytes: Bytes) {
        let ground = &mut self.ground;
        ground.codes.offer(&mut ground.out, ground.me.id, code, bytes, &ground.policy);
    }
}
