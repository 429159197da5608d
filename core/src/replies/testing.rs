//! Helpers for the tests of this folder.

use alloc::sync::Arc;
use catena_wire::{NodeId, NodeRef};

pub(super) fn node(id: u64) -> Arc<NodeRef> {
    Arc::new(NodeRef { id: NodeId(id), name: "n".into(), address: None, site: None })
}
