//! Which links there are, by place and by node.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::{Link, NetError, Place};

/// Places by which one link can be found. Names of a node's host are few; whoever wants to fill a node's memory has many.
const PLACES_PER_LINK_MAX: usize = 16;

/// A dial under way, and later its result.
pub(crate) type Dial = watch::Receiver<Option<Result<Arc<Link>, NetError>>>;

/// The live links of an endpoint, at most `links_max`, and at most as many dials as there are callers.
#[derive(Default)]
pub(crate) struct Registry {
    links: HashMap<u64, Arc<Link>>,
    by_place: HashMap<Place, u64>,
    /// The links of each node. The node is reached by the first. There is a second while both sides have dialled at once, until one side has ended either link.
    by_node: HashMap<u64, Vec<u64>>,
    pub(crate) dials: HashMap<Place, Dial>,
    pub(crate) closed: bool,
}

impl Registry {
    /// Adds a link; its node is not known yet.
    pub(crate) fn add(&mut self, link: &Arc<Link>) {
        self.links.insert(link.id, Arc::clone(link));
        if let Some(place) = &link.place {
            self.by_place.insert(place.clone(), link.id);
        }
    }

    /// From now on `link` is the link of `node`. If there is another live one, it is returned and nothing has changed.
    pub(crate) fn claim(&mut self, link: &Link, node: u64) -> Result<(), Arc<Link>> {
        if let Some(first) = self.to_node(node) {
            return Err(first);
        }
        self.prefer(link, node);
        Ok(())
    }

    /// The same, even if there is another link; the other takes over if this one ends first.
    pub(crate) fn prefer(&mut self, link: &Link, node: u64) {
        if self.links.contains_key(&link.id) {
            self.by_node.entry(node).or_default().insert(0, link.id);
        }
    }

    /// From now on a look-up of this place finds this link, which few places may do.
    pub(crate) fn also_at(&mut self, place: &Place, link: &Link) {
        let others = self.by_place.iter().filter(|(other, id)| **id == link.id && link.place.as_ref() != Some(*other));
        let others: Vec<_> = others.map(|(other, _)| other.clone()).collect();
        if others.len() >= PLACES_PER_LINK_MAX {
            others.first().map(|other| self.by_place.remove(other));
        }
        self.by_place.insert(place.clone(), link.id);
    }

    /// Takes the places of links that `node` has refused because it has another one to this endpoint, which is `link`. Returns those links, which are to end.
    pub(crate) fn replace_refused(&mut self, link: &Link, node: u64) -> Vec<Arc<Link>> {
        let refused = |other: &&Arc<Link>| other.refused_by.get() == Some(&node) && other.hello.get().is_none();
        let replaced: Vec<_> = self.links.values().filter(refused).cloned().collect();
        replaced.iter().filter_map(|other| other.place.as_ref()).for_each(|place| self.also_at(place, link));
        replaced
    }

    pub(crate) fn remove(&mut self, link: &Link) {
        self.links.remove(&link.id);
        self.by_place.retain(|_, id| *id != link.id);
        self.by_node.retain(|_, ids| {
            ids.retain(|id| *id != link.id);
            !ids.is_empty()
        });
    }

    pub(crate) fn at_place(&self, place: &Place) -> Option<Arc<Link>> {
        self.live(*self.by_place.get(place)?)
    }

    pub(crate) fn to_node(&self, node: u64) -> Option<Arc<Link>> {
        self.by_node.get(&node)?.iter().find_map(|id| self.live(*id))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Link>> {
        self.links.values().cloned().collect()
    }

    fn live(&self, id: u64) -> Option<Arc<Link>> {
        self.links.get(&id).filter(|link| link.ended().is_none()).cloned()
    }
}
