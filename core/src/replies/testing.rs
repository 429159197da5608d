//! Helpers for the tests of this folder.

use alloc::sync::Arc;
use catena_wire::{Budget, NodeId, NodeRef, Value};

use crate::{
    calls::{ReplyTo, Request},
    collections::Party,
    ground::Ground,
};

pub(super) fn node(id: u64) -> Arc<NodeRef> {
    Arc::new(NodeRef { id: NodeId(id), name: "n".into(), address: None, site: None })
}

pub(super) fn request(ground: &Ground, reply_to: ReplyTo) -> Request {
    let (by, budget) = (Party::Node(NodeId(2)), Budget::new(60_000_000, 1));
    Request::new(by, reply_to, "s".into(), "f".into(), Value::null(), ground.now, budget)
}
