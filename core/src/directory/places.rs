//! What is known of the places of services, and of the ways there.

use alloc::string::String;
use catena_wire::{Hash, NodeId};

use super::{Directory, Known, Link};
use crate::{Instance, Policy, Time};

impl Directory {
    /// A service is there. Later news replaces earlier.
    pub(crate) fn learn(&mut self, service: &str, place: Instance, policy: &Policy) {
        self.names.learn(service, place, policy);
    }

    /// What is known of a service, unless that is too old.
    pub(crate) fn known(&self, now: Time, service: &str) -> Option<&Known> {
        self.names.get(now, service)
    }

    /// What is known of a service is too old at `end`.
    pub(crate) fn shorten(&mut self, service: &str, end: Time) {
        self.names.shorten(service, end);
    }

    /// The service may be elsewhere by now: it is looked up when it is used next.
    pub(crate) fn forget(&mut self, service: &str) {
        self.names.forget(service);
    }

    /// The service is not at that node.
    pub(crate) fn not_there(&mut self, service: &str, node: NodeId) {
        self.names.forget_at(service, node);
    }

    /// Whether that node is known as a proxy of the service.
    pub(crate) fn is_proxy(&self, service: &str, node: NodeId) -> bool {
        let proxy = self.names.last_place(service).and_then(|place| place.proxy.as_ref());
        proxy.is_some_and(|proxy| proxy.id == node)
    }

    /// Whether this function may answer with a chain, as far as is known here.
    pub(crate) fn may_answer_with_chain(&self, service: &str, function: &str) -> bool {
        let served = self.services.get(service).map(|served| &served.kinds);
        let kinds = served.or_else(|| self.names.last_place(service).map(|place| &place.kinds));
        kinds.is_some_and(|kinds| kinds.chaining.iter().any(|known| known == function))
    }

    pub(crate) fn link_measured(&mut self, node: NodeId, link: Link) {
        self.placement.learn_link(node, link);
    }

    /// The continuation of this function had so many bytes.
    pub(crate) fn state_measured(&mut self, code: Hash, bytes: usize) {
        self.placement.learn_state(code, bytes);
    }

    /// A result of this function of a service had so many bytes.
    pub(crate) fn result_measured(&mut self, service: &str, function: &str, bytes: usize) {
        self.placement.learn_result(target(service, function), bytes);
    }

    /// Whether a chain of this function had better move for a call than stay; it moves where nothing is known.
    pub(crate) fn moving_is_quicker(&self, code: Hash, service: &str, function: &str) -> bool {
        let quicker =
            |place: &Instance| self.placement.moving_is_quicker(code, place.node.id, &target(service, function));
        self.names.last_place(service).is_none_or(quicker)
    }
}

fn target(service: &str, function: &str) -> String {
    [service, "/", function].concat()
}
