//! Names that were looked up, and where they led: kept for a while, and only a limited number of them.
//!
//! An entry is a hint, like one in an ARP cache: a node that is asked says itself what it serves, and counts as another run if it was restarted. A hint that
//! turns out wrong is forgotten by whoever used it, and the name is looked up anew. So an entry does not expire by itself, unless its source sets a time.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
};
use catena_wire::{Exception, NodeId};

use crate::{Instance, Policy, Time, collections::Timers};

#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It is served there.
    At(Instance),
    /// A moment ago no node served it.
    Absent(Exception),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    entries: BTreeMap<String, Known>,
    /// The names that lead to each node.
    at: BTreeSet<(NodeId, String)>,
    /// When each name is to be looked up anew.
    ends: Timers<String>,
}

impl Names {
    /// A service is there. Later news replaces earlier.
    pub(crate) fn learn(&mut self, service: &str, place: Instance, policy: &Policy) {
        self.put(service, Known::At(place), Time::from_us(u64::MAX), policy.names_max);
    }

    /// As far as is known, nobody serves it.
    pub(crate) fn absent(&mut self, now: Time, service: &str, why: Exception, policy: &Policy) {
        self.put(service, Known::Absent(why), now.after(policy.name_absent_ttl_us), policy.names_max);
    }

    fn put(&mut self, service: &str, known: Known, end: Time, names_max: usize) {
        self.forget(service);
        while self.entries.len() >= names_max.max(1)
            && let Some(first) = self.ends.take_first()
        {
            self.forget(&first);
        }
        self.ends.set(service.to_string(), end);
        if let Known::At(place) = &known {
            self.at.insert((place.node.id, service.to_string()));
        }
        self.entries.insert(service.to_string(), known);
    }

    /// The name is to be looked up anew at `end` at the latest.
    pub(crate) fn shorten(&mut self, service: &str, end: Time) {
        self.ends.bring_forward(service, end);
    }

    /// What is known of a name, unless that is too old.
    pub(crate) fn get(&self, now: Time, service: &str) -> Option<&Known> {
        let known = self.entries.get(service)?;
        self.ends.at(service).is_some_and(|end| now < end).then_some(known)
    }

    /// Where the service is, or was a while ago.
    pub(crate) fn last_place(&self, service: &str) -> Option<&Instance> {
        match self.entries.get(service) {
            Some(Known::At(place)) => Some(place),
            _ => None,
        }
    }

    /// Whether that node is known as a proxy of the service.
    pub(crate) fn is_proxy(&self, service: &str, node: NodeId) -> bool {
        let proxy = self.last_place(service).and_then(|place| place.proxy.as_ref());
        proxy.is_some_and(|proxy| proxy.id == node)
    }

    pub(crate) fn forget(&mut self, service: &str) {
        self.ends.clear(service);
        if let Some(Known::At(place)) = self.entries.remove(service) {
            self.at.remove(&(place.node.id, service.to_string()));
        }
    }

    /// The service is not at that node. Returns whether this is news.
    pub(crate) fn forget_at(&mut self, service: &str, node: NodeId) -> bool {
        let leads_there = self.last_place(service).is_some_and(|place| place.node.id == node);
        if leads_there {
            self.forget(service);
        }
        leads_there
    }

    pub(crate) fn forget_node(&mut self, node: NodeId) {
        while let Some((at, service)) = self.at.range((node, String::new())..).next().cloned()
            && at == node
        {
            self.forget(&service);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use catena_wire::{Fault, Kinds, NodeRef};

    use super::*;

    fn at(id: u64) -> Instance {
        let node = NodeRef { id: NodeId(id), name: String::new(), address: None, site: None };
        Instance { node: Arc::new(node), proxy: None, kinds: Kinds::default() }
    }

    fn policy() -> Policy {
        Policy { names_max: 2, name_absent_ttl_us: 10, ..Policy::default() }
    }

    const fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    #[test]
    fn the_old_is_looked_up_anew_and_the_soonest_old_makes_room() {
        let mut names = Names::default();
        names.learn("a", at(1), &policy());
        names.shorten("a", us(100));
        names.absent(us(5), "b", Exception::new("", Fault::Caller, ""), &policy());
        assert!(matches!(names.get(us(14), "b"), Some(Known::Absent(_))));
        assert!(
            names.get(us(15), "b").is_none() && names.get(us(99), "a").is_some() && names.get(us(100), "a").is_none()
        );
        names.learn("c", at(1), &policy());
        assert!(names.get(us(7), "b").is_none(), "it would have been old first");
        assert_eq!((names.entries.len(), names.ends.len()), (2, 2));
        names.learn("c", at(2), &policy());
        assert!(!names.forget_at("c", NodeId(1)) && names.forget_at("c", NodeId(2)));
        names.forget_node(NodeId(1));
        assert!(names.entries.is_empty() && names.ends.len() == 0);
    }

    #[test]
    fn a_node_that_is_gone_takes_what_leads_to_it_along_and_nothing_else() {
        let mut names = Names::default();
        let policy = Policy { names_max: 3, ..policy() };
        for (service, node) in [("a", 1), ("b", 1), ("c", 2), ("b", 2), ("d", 1)] {
            names.learn(service, at(node), &policy);
        }
        names.forget_node(NodeId(1));
        let known = ["a", "b", "c", "d"].map(|service| names.last_place(service).is_some());
        assert_eq!(known, [false, true, true, false]);
        assert!(names.at.len() == 2 && names.ends.len() == 2);
    }
}
