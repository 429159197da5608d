//! Where services are: here, elsewhere, and where they have moved.

use alloc::{boxed::Box, string::ToString, sync::Arc};
use catena_wire::{Exception, Kinds, Message, NodeId, NodeRef, Relocation, ServiceEntry};

use super::Node;
use crate::{
    Instance, LookupId, Receipt, Time, Urgency,
    directory::{Known, Waiter},
    ground::Ground,
};

impl Node {
    /// Offers a service of this node under `service`, with these functions, of these kinds.
    pub fn serve<'a>(&mut self, service: &str, functions: impl IntoIterator<Item = &'a str>, kinds: Kinds) {
        self.ground.directory.serve(service, functions, kinds);
    }

    /// Another node serves this service too, or did: a durable function of it may have done a step there.
    pub fn note_replica(&mut self, service: &str) {
        self.ground.directory.note_replica(service);
    }

    /// Learns, unasked, where a service is. Later news replaces earlier.
    pub fn learn(&mut self, service: &str, place: Instance) {
        let Ground { directory, policy, .. } = &mut self.ground;
        directory.names.learn(service, place, policy);
    }

    /// Whether it is known where this service is.
    #[must_use]
    pub fn knows(&self, service: &str) -> bool {
        self.place_of(service).is_some()
    }

    /// Where this service is, if that is known.
    #[must_use]
    pub fn place_of(&self, service: &str) -> Option<&Instance> {
        match self.ground.directory.names.get(self.ground.now, service) {
            Some(Known::At(place)) => Some(place),
            _ => None,
        }
    }

    /// This service is not at that node, or no longer: it has to be looked up again.
    pub fn on_not_there(&mut self, service: &str, node: NodeId) {
        self.ground.directory.names.forget_at(service, node);
    }

    /// A name has been looked up.
    pub fn on_resolved(&mut self, now: Time, lookup: LookupId, place: Result<Instance, Exception>) {
        self.at(now, |node| {
            let Ground { directory, policy, .. } = &mut node.ground;
            let waiters = directory.resolved(now, lookup, &place, policy);
            node.found(waiters, &place);
        });
    }

    /// What was found for a name is valid for `ttl_us`.
    pub fn on_name_ttl(&mut self, now: Time, service: &str, ttl_us: u64) {
        self.ground.directory.names.shorten(service, now.after(ttl_us));
    }

    /// The name is reported to lead elsewhere now: what is known about it is forgotten, and it is looked up again when it is used next.
    pub fn on_name_changed(&mut self, service: &str) {
        self.ground.directory.names.forget(service);
    }

    pub(super) fn found(&mut self, waiters: impl IntoIterator<Item = Waiter>, place: &Result<Instance, Exception>) {
        for waiter in waiters {
            match waiter {
                Waiter::Call(id) => {
                    if let Ok(place) = place
                        && let Some(request) = self.calls.going_to(id, place)
                    {
                        self.chains.lend_late(self.ground.now, request, place);
                    }
                    self.calls.resolved(&mut self.ground, id, place);
                }
                Waiter::Chain(session, step) => {
                    self.chains.resolved(&mut self.ground, (session, step), place);
                }
            }
        }
    }

    /// A node says that a service is there no longer.
    pub(super) fn moved(&mut self, from: NodeId, service: &str, relocation: Relocation) {
        let Ground { directory, policy, out, .. } = &mut self.ground;
        if let Some((place, waiters)) = directory.moved(out, from, service, relocation, policy) {
            self.found(waiters, &Ok(place));
        }
    }

    /// This node no longer serves this service; what has begun goes on. `moving_us`: the service is being moved, and [`Node::service_moved`] will follow within
    /// this many microseconds; until then its callers are told to wait.
    pub fn leave_service(&mut self, now: Time, service: &str, moving_us: Option<u64>) {
        self.at(now, |node| {
            let Ground { directory, policy, clock, .. } = &mut node.ground;
            directory.leave(clock.now(), service, moving_us.map(|us| now.after(us)), policy);
        });
    }

    /// A service that this node served is at `to` now, or gone. The nodes in `tell`, which may have called it here, are told.
    pub fn service_moved(&mut self, now: Time, service: &str, to: Option<ServiceEntry>, tell: &[Arc<NodeRef>]) {
        self.at(now, |node| {
            let relocation = to.clone().map_or(Relocation::Unknown, |entry| Relocation::There(Box::new(entry)));
            let Ground { directory, policy, clock, me, .. } = &mut node.ground;
            directory.left_for(clock.now(), service, relocation.clone(), policy);
            let elsewhere = to.filter(|entry| entry.service == service && !directory.serves(service));
            if let Some(place) = elsewhere.and_then(Instance::of) {
                directory.names.learn(service, place, policy);
            }
            // Chains and calls of this node may wait for it as well.
            let me = me.id;
            node.moved(me, service, relocation.clone());
            let out = &mut node.ground.out;
            for peer in tell {
                let message = Message::Moved(service.to_string(), relocation.clone());
                out.send(peer, message, Receipt::None, Urgency::Now);
            }
        });
    }
}
