//! Cancelling a running chain (rpc-chains section 6): along the pointers that it left behind, at every branch.

use alloc::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{ChainId, End, Message, NodeId, NodeRef, StepKey};

use crate::{
    Node, Policy, Receipt, Time, Urgency,
    activation::{Activation, Phase},
    steps::Done,
};

/// Chains that were cancelled lately: a hop that comes late does not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancelled {
    /// With the only node from which it must not come, if it was that node which said so, of a chain unknown here.
    chains: BTreeSet<(ChainId, Option<NodeId>)>,
    since: VecDeque<(Time, (ChainId, Option<NodeId>))>,
}

impl Cancelled {
    /// Whether this chain must not go on here, coming from there.
    pub(crate) fn contains(&self, chain: ChainId, from: NodeId) -> bool {
        self.chains.contains(&(chain, None)) || self.chains.contains(&(chain, Some(from)))
    }

    fn insert(&mut self, now: Time, chain: (ChainId, Option<NodeId>), policy: &Policy) -> bool {
        let new = self.chains.insert(chain);
        if new {
            self.since.push_back((now, chain));
            self.evict(now, policy);
        }
        new
    }

    pub(crate) fn evict(&mut self, now: Time, policy: &Policy) {
        while let Some((at, chain)) = self.since.front() {
            if self.since.len() <= policy.cancelled_max && now.since(*at) < policy.step_cache_ttl_us {
                break;
            }
            self.chains.remove(chain);
            self.since.pop_front();
        }
    }
}

impl Node {
    /// Stops a chain that was begun here, wherever it is by now. It ends as `Cancelled`; of a chain that has ended, nothing happens.
    pub fn cancel(&mut self, now: Time, chain: ChainId) {
        self.tell_where_it_is(now, chain);
        let last_host = self.origin.last_host(chain);
        if self.origin.cancel(chain, &mut self.actions) {
            self.stop(now, chain, last_host);
            self.settle_apart(now);
        }
    }

    /// A chain that is here has made the step that it has made, though its next sign of life is not due yet.
    fn tell_where_it_is(&mut self, now: Time, chain: ChainId) {
        let here = self.activations.find(|activation| activation.chain() == chain);
        let keys = here.into_iter().filter_map(|session| self.activations.get(session).map(Activation::key));
        if let Some(key) = keys.max_by_key(|key| key.step) {
            let me = self.me.clone();
            self.on_message(now, &me, Message::Heartbeat(key, me.name.clone(), Vec::new()));
        }
    }

    /// The holder of the reply set has gone: the chain is stopped, and what still comes of it is dropped.
    pub fn forget(&mut self, now: Time, chain: ChainId) {
        let last_host = self.origin.last_host(chain);
        if self.origin.forget(chain) {
            self.stop(now, chain, last_host);
        }
    }

    /// The end of a chain of this node. One that was cut may be under way elsewhere still.
    pub(crate) fn chain_ended(&mut self, now: Time, end: End) {
        let (chain, last_node) = (end.key.chain, self.origin.last_host(end.key.chain));
        let cut = end.cut && self.origin.awaits(chain);
        self.origin.on_end(now, end, &self.policy, &mut self.actions);
        // Of a chain that went on here as well, after it was told that another had been lost.
        let here = |(_, done): (&StepKey, &Done)| matches!(done, Done::Running(_));
        if cut || (!self.origin.awaits(chain) && self.steps.of_chain(chain).any(here)) {
            self.stop(now, chain, last_node);
        }
    }

    /// Chains that ran on their own for somebody who is gone.
    pub(crate) fn give_up(&mut self, now: Time) {
        while let Some(chain) = self.given_up.pop() {
            self.forget(now, chain);
        }
    }

    /// A sign of life of a chain of this node that has ended, as far as is known here: whoever was to stop it did not get there.
    pub(crate) fn stop_stray(&mut self, from: &Arc<NodeRef>, chain: ChainId) {
        if chain.origin == self.me.id && from.id != self.me.id && !self.origin.awaits(chain) {
            self.send(from, Message::Cancel(chain), Receipt::None, Urgency::Now);
        }
    }

    /// Another node says so: the origin itself, or one by which the chain came here.
    pub(crate) fn cancelled_by(&mut self, now: Time, from: &NodeRef, chain: ChainId) {
        let brought = |done: &Done| match done {
            Done::Running(session) => self.activations.get(*session).is_some_and(|a| a.before.id == from.id),
            done => done.came_from(from.id),
        };
        if from.id == chain.origin || self.steps.of_chain(chain).any(|(_, done)| brought(done)) {
            return self.stop(now, chain, None);
        }
        // It has overtaken the hop that it follows; whoever sent that may stop it, and nobody else.
        self.cancelled.insert(now, (chain, Some(from.id)), &self.policy);
    }

    pub(crate) fn stop(&mut self, now: Time, chain: ChainId, also: Option<Arc<NodeRef>>) {
        if !self.cancelled.insert(now, (chain, None), &self.policy) {
            return;
        }
        let mut next: Vec<Arc<NodeRef>> = also.into_iter().collect();
        next.extend(self.steps.of_chain(chain).flat_map(|(_, done)| done.went_to()));
        for session in self.activations.find(|activation| activation.chain() == chain) {
            if let Some(Phase::Handing(custody)) = self.activations.get(session).map(|activation| &activation.phase) {
                next.extend(custody.tried.iter().chain([&custody.to]).cloned());
            }
            self.discard(session);
        }
        // Calls that its functions started and did not await, too.
        self.abandon(|call| call.key.as_ref().is_some_and(|key| key.chain == chain));
        let calling = |(key, done): (&StepKey, &Done)| matches!(done, Done::Calling { .. }).then(|| key.clone());
        let calls: Vec<_> = self.steps.of_chain(chain).filter_map(calling).collect();
        calls.iter().for_each(|key| self.abandon_step(now, key));
        next.sort_by_key(|node| node.id);
        next.dedup_by_key(|node| node.id);
        // The origin has heard it first; an answer on its way there is dropped there.
        next.retain(|node| node.id != self.me.id && node.id != chain.origin);
        for node in next {
            self.send(&node, Message::Cancel(chain), Receipt::None, Urgency::Now);
        }
        self.give_up(now);
    }
}
