//! What is served where: the services of this node, names learnt, and names being looked up.

mod placement;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};
use catena_wire::{Exception, Fault, Kinds, NodeId, names};

use crate::{Action, Instance, RetryScope, SessionId, outbox::Outbox};
pub use placement::Link;
pub(crate) use placement::Placement;

/// A service of this node.
#[derive(Clone, Debug)]
struct Served {
    functions: BTreeSet<String>,
    kinds: Kinds,
    /// Some other node serves it too, or did.
    has_replicas: bool,
}

/// What waits for a name to be looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A plain call, by its number.
    Call(u64),
    /// A chain that is to go there, from this step.
    Chain(SessionId, u32),
}

/// A name being looked up.
#[derive(Clone, Debug, Default)]
struct Lookup {
    waiters: Vec<Waiter>,
    /// Answers that are to come: each says where the service is, other than where it was asked to look.
    answers_due: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    services: BTreeMap<String, Served>,
    names: BTreeMap<String, Instance>,
    lookups: BTreeMap<String, Lookup>,
    waiting: usize,
    pub(crate) placement: Placement,
}

impl Directory {
    pub(crate) fn serve<'a>(&mut self, service: &str, functions: impl IntoIterator<Item = &'a str>, kinds: Kinds) {
        let functions = functions.into_iter().map(ToString::to_string).collect();
        self.services.insert(service.to_string(), Served { functions, kinds, has_replicas: false });
    }

    pub(crate) fn serves(&self, service: &str) -> bool {
        self.services.contains_key(service)
    }

    pub(crate) fn note_replica(&mut self, service: &str) {
        if let Some(served) = self.services.get_mut(service) {
            served.has_replicas = true;
        }
    }

    /// Whether this node has that function, or who is mistaken.
    pub(crate) fn check(&self, host: &str, service: &str, function: &str) -> Result<(), Exception> {
        let Some(Served { functions, .. }) = self.services.get(service) else {
            let message = format!("{host} does not serve {service}");
            return Err(Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, message));
        };
        if functions.contains(function) {
            return Ok(());
        }
        let known = functions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("{service} has no function {function}; it has {known}");
        Err(Exception::new(names::UNKNOWN_FUNCTION, Fault::Caller, message))
    }

    /// Where a function of this node may be done again, and whether others serve it too; of another node's nothing is decided here.
    pub(crate) fn scope_here(&self, service: &str, function: &str) -> Option<(RetryScope, bool)> {
        let served = self.services.get(service)?;
        Some((RetryScope::of(&served.kinds, function), served.has_replicas))
    }

    /// Whether this function may answer with a chain, as far as is known here.
    pub(crate) fn may_answer_with_chain(&self, service: &str, function: &str) -> bool {
        let served = self.services.get(service).map(|served| &served.kinds);
        let kinds = served.or_else(|| self.names.get(service).map(|place| &place.kinds));
        kinds.is_some_and(|kinds| kinds.chaining.iter().any(|known| known == function))
    }

    pub(crate) fn learn(&mut self, service: &str, place: Instance, names_max: usize) {
        if self.names.len() < names_max || self.names.contains_key(service) {
            self.names.insert(service.to_string(), place);
        }
    }

    pub(crate) fn place(&self, service: &str) -> Option<&Instance> {
        self.names.get(service)
    }

    pub(crate) fn forget(&mut self, service: &str) -> Option<Instance> {
        self.names.remove(service)
    }

    /// Another run of it, or another node, may serve by now what it served: that is asked again.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.names.retain(|_, place| place.node.id != node);
        self.placement.forget(node);
    }

    /// How many calls and chains wait for a name.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lookups.is_empty()
    }

    /// Has a name looked up, for whoever waits for it. Those who have no instance to avoid share one look-up.
    pub(crate) fn look_up(&mut self, out: &mut Outbox, service: &str, waiter: Waiter, avoid: Vec<NodeId>) {
        self.waiting += 1;
        let lookup = self.lookups.entry(service.to_string()).or_default();
        lookup.waiters.push(waiter);
        if lookup.answers_due == 0 || !avoid.is_empty() {
            lookup.answers_due += 1;
            out.ask(Action::Resolve { service: service.to_string(), avoid });
        }
    }

    /// An answer has come. Returns who waits for it, and whether another is to come.
    pub(crate) fn answered(&mut self, service: &str) -> (Vec<Waiter>, bool) {
        let Some(lookup) = self.lookups.get_mut(service) else { return (Vec::new(), false) };
        lookup.answers_due = lookup.answers_due.saturating_sub(1);
        let (waiters, more) = (core::mem::take(&mut lookup.waiters), lookup.answers_due > 0);
        if !more {
            self.lookups.remove(service);
        }
        self.waiting -= waiters.len();
        (waiters, more)
    }

    /// What was looked up for another was no use to this one, which waits for the next answer.
    pub(crate) fn wait_on(&mut self, service: &str, waiter: Waiter) {
        if let Some(lookup) = self.lookups.get_mut(service) {
            lookup.waiters.push(waiter);
            self.waiting += 1;
        }
    }
}
