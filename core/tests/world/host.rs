//! One node with its shell: does what the state machines ask, and keeps guests and functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use catena_core::{Node, Policy, SessionId, Ticket};
use catena_wire::{Hash, NodeId, NodeRef};

use crate::{
    guest::Guest,
    plan::Plan,
    services::{FUNCTIONS, kinds_of, service_name},
};

/// A node that runs, or has run.
pub(crate) struct Host {
    pub(crate) index: usize,
    pub(crate) me: Arc<NodeRef>,
    pub(crate) node: Node,
    pub(crate) up: bool,
    pub(crate) guests: BTreeMap<SessionId, (Hash, Guest)>,
    /// Sessions that have been discarded: nothing may be asked of them again.
    pub(crate) dead: BTreeSet<SessionId>,
    pub(crate) codes: BTreeMap<Hash, Bytes>,
    pub(crate) cancelled: BTreeSet<Ticket>,
    pub(crate) services_run: u64,
}

impl Host {
    pub(crate) fn start(index: usize, run: u64, services: &[u8], policy: Policy, plan: &Plan) -> Self {
        let dialled = plan.nodes.undialled != Some(index);
        let me = NodeRef {
            id: NodeId(run * 1_000 + index as u64 + 1),
            name: format!("n{index}"),
            address: dialled.then(|| format!("n{index}:1")),
            site: None,
        };
        let mut node = Node::new(me.clone(), policy, 1_700_000_000_000_000);
        for service in services {
            node.serve(&service_name(*service), FUNCTIONS, kinds_of(*service, &plan.nodes.repeatable));
        }
        Self {
            index,
            me: Arc::new(me),
            node,
            up: true,
            guests: BTreeMap::new(),
            dead: BTreeSet::new(),
            codes: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            services_run: 0,
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.me.id
    }
}
