//! What is served where: the services of this node, names learnt, names being looked up, and services that have moved away.

mod lookups;
mod names;
mod placement;
mod seeking;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};
use catena_wire::{Exception, Fault, Hash, Kinds, Relocation, names as exceptions};

use crate::{
    Policy, RetryScope, Time,
    collections::{Expiring, Party},
};
use lookups::Lookups;
pub(crate) use lookups::Waiter;
pub(crate) use names::Known;
use names::Names;
pub use placement::Link;
use placement::Placement;

#[derive(Clone, Debug)]
struct Served {
    functions: BTreeSet<String>,
    kinds: Kinds,
    /// Some other node serves it too, or did.
    has_replicas: bool,
}

/// Where a service of this node went.
#[derive(Clone, Debug)]
enum Left {
    /// It is being moved, until this time at the latest.
    Moving(Time),
    To(Relocation),
}

/// Why a call is not done here.
#[derive(Debug)]
pub(crate) enum NotHere {
    /// Its service is not here, but may be elsewhere.
    Elsewhere(Relocation),
    /// The call is not to be done elsewhere either.
    For(Box<Exception>),
}

impl From<Exception> for NotHere {
    fn from(why: Exception) -> Self {
        Self::For(Box::new(why))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    services: BTreeMap<String, Served>,
    left: Expiring<String, Left>,
    pub(crate) names: Names,
    pub(crate) lookups: Lookups,
    pub(crate) placement: Placement,
}

impl Directory {
    pub(crate) fn serve<'a>(&mut self, service: &str, functions: impl IntoIterator<Item = &'a str>, kinds: Kinds) {
        let functions = functions.into_iter().map(ToString::to_string).collect();
        self.names.forget(service);
        self.left.remove(&service.to_string());
        self.services.insert(service.to_string(), Served { functions, kinds, has_replicas: false });
    }

    pub(crate) fn serves(&self, service: &str) -> bool {
        self.services.contains_key(service)
    }

    /// The service is no longer served here. With `until`: by then this node says where the service is instead.
    pub(crate) fn leave(&mut self, awake: Time, service: &str, until: Option<Time>, policy: &Policy) {
        if bug!(policy, TwoOwners) {
            return;
        }
        self.services.remove(service);
        let left = until.map_or(Left::To(Relocation::Unknown), Left::Moving);
        self.set_left(awake, service, left, policy);
    }

    /// Where a service went that was served here and is no longer.
    pub(crate) fn left_for(&mut self, awake: Time, service: &str, relocation: Relocation, policy: &Policy) {
        if !self.serves(service) {
            self.set_left(awake, service, Left::To(relocation), policy);
        }
    }

    fn set_left(&mut self, awake: Time, service: &str, left: Left, policy: &Policy) {
        // Inserted again, so that its age counts from now on.
        self.left.remove(&service.to_string());
        self.left.entry(awake, Party::Own, service.to_string(), policy.moved_max, || left);
    }

    /// Drops what has been remembered for long enough.
    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        self.left.expired(awake, policy.moved_ttl_us);
    }

    fn relocation(&self, now: Time, service: &str) -> Relocation {
        match self.left.get(&service.to_string()) {
            Some(Left::To(relocation)) => relocation.clone(),
            _ => self
                .moving_until(now, service)
                .map_or(Relocation::Unknown, |until| Relocation::Moving(until.since(now))),
        }
    }

    /// Until when a service is being moved away from here, if it is: by then this node says where it is.
    pub(crate) fn moving_until(&self, now: Time, service: &str) -> Option<Time> {
        match self.left.get(&service.to_string()) {
            Some(Left::Moving(until)) if *until > now => Some(*until),
            _ => None,
        }
    }

    pub(crate) fn note_replica(&mut self, service: &str) {
        if let Some(served) = self.services.get_mut(service) {
            served.has_replicas = true;
        }
    }

    /// Whether this node has that function; if not, where to look for it, or what the caller got wrong.
    pub(crate) fn find(&self, now: Time, service: &str, function: &str) -> Result<(), NotHere> {
        let Some(Served { functions, .. }) = self.services.get(service) else {
            return Err(NotHere::Elsewhere(self.relocation(now, service)));
        };
        if functions.contains(function) {
            return Ok(());
        }
        let known = functions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("{service} has no function {function}; it has {known}");
        Err(Exception::new(exceptions::UNKNOWN_FUNCTION, Fault::Caller, message).into())
    }

    /// The same, for a caller that cannot be sent elsewhere.
    pub(crate) fn check(&self, host: &str, service: &str, function: &str) -> Result<(), Exception> {
        self.find(Time::default(), service, function).map_err(|why| match why {
            NotHere::Elsewhere(_) => not_served(host, service),
            NotHere::For(why) => *why,
        })
    }

    /// The retry scope of a function of this node, and whether others serve its service too. `None` for other nodes' services: nothing is decided here.
    pub(crate) fn scope_here(&self, service: &str, function: &str) -> Option<(RetryScope, bool)> {
        let served = self.services.get(service)?;
        Some((RetryScope::of(&served.kinds, function), served.has_replicas))
    }

    /// Whether this function may answer with a chain, as far as is known here.
    pub(crate) fn may_answer_with_chain(&self, service: &str, function: &str) -> bool {
        let served = self.services.get(service).map(|served| &served.kinds);
        let kinds = served.or_else(|| self.names.last_place(service).map(|place| &place.kinds));
        kinds.is_some_and(|kinds| kinds.chaining.iter().any(|known| known == function))
    }

    /// Whether a chain of this function should move for a call rather than stay; it moves where nothing is known.
    pub(crate) fn moving_is_quicker(&self, code: Hash, service: &str, function: &str) -> bool {
        let place = self.names.last_place(service);
        place.is_none_or(|place| self.placement.moving_is_quicker(code, place.node.id, service, function))
    }
}

pub(crate) fn not_served(host: &str, service: &str) -> Exception {
    let message = format!("{host} does not serve {service}");
    Exception::new(exceptions::UNKNOWN_SERVICE, Fault::Caller, message)
}
