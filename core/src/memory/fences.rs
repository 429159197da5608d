//! Tombstones of chains that were stopped, and fences for chains that may be under way twice (rpc-chains section 3.9).
//!
//! A step that may have been done is repeated when its node is lost, if that is declared harmless, and a function that is told of such a loss may go on. From
//! then on one chain may have two ways. The first is not flagged as a possible duplicate, and only it may do what must not be done twice; so it is done at
//! most once, whatever any node remembers. A flagged way goes on through functions that are declared repeatable, and through durable ones, whose own record on
//! disk tells the ways apart. A node that has seen a flagged way refuses the others beyond the step at which they parted. Epochs would fence likewise, but need
//! one place that counts them.
//!
//! Each entry counts for the peer that caused it, and is never evicted to make room for a peer that has more entries. A hop or call that is refused leaves no
//! entry.

use alloc::{format, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, Exception, Fault, NodeId, NodeRef, PossibleDuplicate, StepKey, names};

use crate::{
    Policy, RetryScope, Time,
    collections::{Expiring, Party},
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    /// Tombstones of chains that were stopped: a hop that arrives late does not run. If a node stopped a chain that was unknown here, the tombstone names that
    /// node, and refuses hops from it only.
    stopped: Expiring<(ChainId, Option<NodeId>), ()>,
    /// Fences: chains of which a way that is flagged as a possible duplicate has been here.
    duplicates: Expiring<(ChainId, Branch), PossibleDuplicate>,
    /// Nodes that were sent a step of a chain and given up, although they may have it: they are told to stop it when the chain is over.
    given_up: Expiring<ChainId, Vec<Arc<NodeRef>>>,
}

/// Nodes remembered for one chain: as many as a few of its steps may have been tried at.
const GIVEN_UP_MAX: usize = 64;

impl Fences {
    /// Whether a tombstone refuses hops of this chain that come from this node.
    pub(crate) fn is_stopped(&self, chain: ChainId, from: NodeId) -> bool {
        self.stopped.contains(&(chain, None)) || self.stopped.contains(&(chain, Some(from)))
    }

    /// Adds a tombstone, which counts for `by`; with `from`, it refuses hops from that node only. False if it was there before.
    pub(crate) fn stop(
        &mut self,
        awake: Time,
        by: Party,
        chain: ChainId,
        from: Option<NodeId>,
        policy: &Policy,
    ) -> bool {
        let new = !self.stopped.contains(&(chain, from));
        self.stopped.entry(awake, share_of(by, policy), (chain, from), policy.stopped_chains_max, || ());
        new
    }

    /// A possible duplicate is here, which `by` brought. Of several, the earliest step at which ways parted counts, and the way that arrived last.
    pub(crate) fn note(&mut self, awake: Time, by: Party, duplicate: &PossibleDuplicate, policy: &Policy) {
        let key = (duplicate.since.chain, duplicate.since.branch.clone());
        let (by, max) = (share_of(by, policy), policy.stopped_chains_max);
        let known = self.duplicates.renew(awake, by, key, max, || duplicate.clone());
        known.since.step = known.since.step.min(duplicate.since.step);
        known.way = duplicate.way;
    }

    /// These nodes may have a step of a chain that `by` brought. The chain goes on without waiting for them.
    pub(crate) fn give_up(
        &mut self,
        awake: Time,
        by: Party,
        chain: ChainId,
        nodes: Vec<Arc<NodeRef>>,
        policy: &Policy,
    ) {
        let (by, max) = (share_of(by, policy), policy.stopped_chains_max);
        let known = self.given_up.renew(awake, by, chain, max, Vec::new);
        for node in nodes {
            if known.len() < GIVEN_UP_MAX && known.iter().all(|other| other.id != node.id) {
                known.push(node);
            }
        }
    }

    /// The nodes that were given up and may still have this chain.
    pub(crate) fn given_up(&self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        self.given_up.get(&chain).cloned().unwrap_or_default()
    }

    /// Checks that this step may be done here, although another way of its chain may have done it.
    ///
    /// # Errors
    /// It may have been done: the reason, which the caller puts into `NodeLost`, unknown.
    pub(crate) fn check(
        &self,
        duplicate: Option<&PossibleDuplicate>,
        key: &StepKey,
        scope: RetryScope,
        has_replicas: bool,
    ) -> Result<(), &'static str> {
        match (duplicate, scope) {
            (_, RetryScope::Anywhere) => Ok(()),
            (None, _) if self.is_overtaken(key) => Err("a later way of the chain has been here"),
            (None, _) => Ok(()),
            // A durable function's own record decides; with replicas, only for the lost step itself, which is sent again to its own node and no other.
            (Some(duplicate), RetryScope::SameNode) if !has_replicas || duplicate.since == *key => Ok(()),
            (Some(_), _) => Err("the function is not declared repeatable"),
        }
    }

    /// Branches of a flagged chain are flagged too, so a branch without the flag belongs to the first way, and fences of its parents hold for it.
    fn is_overtaken(&self, key: &StepKey) -> bool {
        let around = core::iter::successors(Some(key.branch.clone()), Branch::parent);
        around.into_iter().any(|branch| {
            self.duplicates.get(&(key.chain, branch)).is_some_and(|duplicate| duplicate.since.step < key.step)
        })
    }

    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        self.stopped.expired(awake, policy.step_record_ttl_us);
        self.duplicates.expired(awake, policy.step_record_ttl_us);
        self.given_up.expired(awake, policy.step_record_ttl_us);
    }
}

/// The party for which an entry counts.
fn share_of(by: Party, policy: &Policy) -> Party {
    Some(by).filter(|_| !bug!(policy, StrangersEvict)).unwrap_or(Party::Own)
}

/// The exception of a step that is not done: whether another way did it is unknown.
pub(crate) fn possibly_done(host: &str, service: &str, function: &str, why: &str) -> Exception {
    let message = format!(
        "a step before was lost and may have been done twice; whether {service}/{function} was done then is unknown: {host} does not do it, since {why}; declare it repeatable if doing it twice is harmless"
    );
    Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown()
}
