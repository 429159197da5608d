//! News of where services are, and who waits for it.

use alloc::vec::Vec;
use catena_wire::{Exception, NodeId, Relocation, names};

use super::{Directory, lookups::Lookup};
use crate::{Instance, LookupId, Policy, Time, directory::Waiter, outbox::Outbox};

impl Directory {
    /// A look-up has been answered. Returns its question's waiters.
    pub(crate) fn resolved(
        &mut self,
        now: Time,
        lookup: LookupId,
        place: &Result<Instance, Exception>,
        policy: &Policy,
    ) -> Vec<Waiter> {
        let Some(Lookup { question, waiters }) = self.lookups.answered(lookup) else { return Vec::new() };
        match place {
            Ok(place) => self.names.learn(&question.service, place.clone(), policy),
            // If some instances were avoided, the error does not mean that nobody serves the service.
            Err(why) if question.avoid.is_empty() && why.name == names::UNKNOWN_SERVICE => {
                self.names.absent(now, &question.service, why.clone(), policy);
            }
            Err(_) => {}
        }
        waiters
    }

    /// A node says that a service is no longer there. This counts only if, as far as this node knows, the service was there. Returns where it is instead, and
    /// who waits for that.
    pub(crate) fn moved(
        &mut self,
        out: &mut Outbox,
        from: NodeId,
        service: &str,
        relocation: Relocation,
        policy: &Policy,
    ) -> Option<(Instance, Vec<Waiter>)> {
        let lookup = self.lookups.moved(service, from);
        if !self.names.forget_at(service, from) && lookup.is_none() {
            return None;
        }
        let waiters = lookup.map(|lookup| lookup.waiters).unwrap_or_default();
        let (place, avoid) = match relocation {
            // The service may even be there again.
            Relocation::There(entry) if entry.service == service => (Instance::of(*entry), Vec::new()),
            _ => (None, alloc::vec![from]),
        };
        let Some(place) = place else {
            for waiter in waiters {
                self.lookups.look_up(out, service, waiter, avoid.clone());
            }
            return None;
        };
        self.names.learn(service, place.clone(), policy);
        Some((place, waiters))
    }

    /// The node may have restarted, or another node may serve by now what it served: those services are looked up again.
    pub(crate) fn forget_node(&mut self, out: &mut Outbox, node: NodeId) {
        self.names.forget_node(node);
        self.placement.forget(node);
        self.lookups.mover_lost(out, node);
    }
}
