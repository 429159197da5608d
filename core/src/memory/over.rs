//! Chains that are over: nodes that keep payloads to answer repeats of their steps need not keep them any longer.
//!
//! The origin says so when a chain's end has arrived, and each node passes it on to those to which the chain went from there. That its steps were done stays
//! known (RIFL, SOSP 2015, section 3: completion records live as long as they can be needed, and are collected by acknowledgement). Correctness does not depend
//! on this notice: a node that misses it forgets the payloads in time.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use catena_wire::{CHAINS_OVER_MAX, ChainId, Message, NodeId, NodeRef};

use crate::{Policy, Receipt, Time, Urgency, outbox::Outbox};

/// Nodes for which notices are gathered at one time; others forget in time without one.
const NODES_MAX: usize = 1_024;

/// What each node is to be told, gathered for a while.
#[derive(Clone, Debug, Default)]
pub(crate) struct Over {
    told: BTreeMap<NodeId, (Arc<NodeRef>, Vec<ChainId>)>,
    due: Option<Time>,
}

impl Over {
    pub(crate) const fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Adds a chain that is over to the notice for this node.
    pub(crate) fn tell(&mut self, now: Time, out: &mut Outbox, node: &Arc<NodeRef>, chain: ChainId, policy: &Policy) {
        if !self.told.contains_key(&node.id) && self.told.len() >= NODES_MAX {
            return;
        }
        let (_, chains) = self.told.entry(node.id).or_insert_with(|| (node.clone(), Vec::new()));
        chains.push(chain);
        if chains.len() >= CHAINS_OVER_MAX
            && let Some((node, chains)) = self.told.remove(&node.id)
        {
            send(out, &node, chains);
        }
        self.due = self.due.or(Some(now.after(policy.over_gather_us)));
    }

    pub(crate) fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            core::mem::take(&mut self.told).into_values().for_each(|(node, chains)| send(out, &node, chains));
        }
    }
}

fn send(out: &mut Outbox, node: &Arc<NodeRef>, chains: Vec<ChainId>) {
    out.send(node, Message::Over(chains), Receipt::None, Urgency::Lazy);
}
