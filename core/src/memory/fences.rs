//! Chains that were stopped, and chains that may be under way twice (rpc-chains section 3.9).
//!
//! Where that is declared to be harmless, a step that may have been done is done again when its node is lost; and a function that is told of
//! such a loss may go on. From then on there may be two ways of one chain. The first is not marked, and only it may do what must not be
//! done twice: so that is done at most once, whatever any node remembers. A marked way goes on through functions that are
//! declared repeatable, and through durable ones, whose own record on disk tells the ways apart. A node that has seen a
//! marked way refuses the others beyond the step at which they parted: epochs fence like that, but need one place that counts.
//!
//! Each entry counts for the peer that brought it about, and nobody's entries make room for those of a peer that has more. A hop or call that
//! is refused leaves none.

use alloc::{format, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, Exception, Fault, NodeId, NodeRef, PossibleDuplicate, StepKey, names};

use crate::{
    Policy, RetryScope, Time,
    collections::{Expiring, Party},
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    /// Chains that were stopped: a hop that comes late does not run. With the only node from which it must not come, if it was that
    /// node which said so, of a chain unknown here.
    stopped: Expiring<(ChainId, Option<NodeId>), ()>,
    /// Chains of which a marked way has been here.
    duplicates: Expiring<(ChainId, Branch), PossibleDuplicate>,
    /// Nodes that were sent a step of a chain, may have it, and were given up: when the chain is over, they are told to stop it.
    given_up: Expiring<ChainId, Vec<Arc<NodeRef>>>,
}

/// Nodes remembered of one chain: as many as a few of its steps may have been tried at.
const GIVEN_UP_MAX: usize = 64;

impl Fences {
    /// Whether this chain must not go on here, coming from there.
    pub(crate) fn is_stopped(&self, chain: ChainId, from: NodeId) -> bool {
        self.stopped.contains(&(chain, None)) || self.stopped.contains(&(chain, Some(from)))
    }

    /// This peer, or this node itself, says that the chain is stopped. False if it was before.
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

    /// A marked way is here, which this peer brought: the earliest step at which ways parted counts, and the way that came last.
    pub(crate) fn note(&mut self, awake: Time, by: Party, duplicate: &PossibleDuplicate, policy: &Policy) {
        let key = (duplicate.since.chain, duplicate.since.branch.clone());
        let (by, max) = (share_of(by, policy), policy.stopped_chains_max);
        let known = self.duplicates.entry(awake, by, key, max, || duplicate.clone());
        known.since.step = known.since.step.min(duplicate.since.step);
        known.way = duplicate.way;
    }

    /// These nodes may have a step of the chain that this peer brought, which goes on without waiting for them.
    pub(crate) fn give_up(
        &mut self,
        awake: Time,
        by: Party,
        chain: ChainId,
        nodes: Vec<Arc<NodeRef>>,
        policy: &Policy,
    ) {
        let (by, max) = (share_of(by, policy), policy.stopped_chains_max);
        let known = self.given_up.entry(awake, by, chain, max, Vec::new);
        for node in nodes {
            if known.len() < GIVEN_UP_MAX && known.iter().all(|other| other.id != node.id) {
                known.push(node);
            }
        }
    }

    /// The nodes at which this chain may be, although nobody waits for it there.
    pub(crate) fn given_up(&self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        self.given_up.get(&chain).cloned().unwrap_or_default()
    }

    /// Whether this step may be done here, as far as another way of its chain may have done it.
    ///
    /// # Errors
    /// `NodeLost`, unknown: it may have been done.
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
            // It is the lost step itself: whoever sent it again did so to the node of that name, and to no other.
            (Some(duplicate), RetryScope::SameNode) if !has_replicas || duplicate.since == *key => Ok(()),
            (Some(_), _) => Err("the function is not declared repeatable"),
        }
    }

    /// Branches of a marked chain are marked, so an unmarked one is of the first way too.
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

/// For whom an entry counts.
fn share_of(by: Party, policy: &Policy) -> Party {
    Some(by).filter(|_| !bug!(policy, StrangersEvict)).unwrap_or(Party::Own)
}

/// Why a step is not done: whether another way did it is not known.
pub(crate) fn possibly_done(host: &str, service: &str, function: &str, why: &str) -> Exception {
    let message = format!(
        "a step before was lost and may have been done twice; whether {service}/{function} was done then is unknown: {host} does not do it, since {why}; declare it repeatable if doing it twice is harmless"
    );
    Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown()
}
