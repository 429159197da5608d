//! Which links there are, by place and by node.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::{Link, NetError, Place};

/// A dial under way, and later its result.
pub(crate) type Dial = watch::Receiver<Option<Result<Arc<Link>, NetError>>>;

/// The live links of an endpoint. As many as `links_max` at most, and as many dials as there are callers.
#[derive(Default)]
pub(crate) struct Registry {
    links: HashMap<u64, Arc<Link>>,
    by_place: HashMap<Place, u64>,
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

    /// Notes the node of a link.
    pub(crate) fn introduce(&mut self, link: &Link, node: u64) {
        if self.links.contains_key(&link.id) {
            self.by_node.entry(node).or_default().push(link.id);
        }
    }

    pub(crate) fn remove(&mut self, link: &Link) {
        self.links.remove(&link.id);
        if let Some(place) = &link.place
            && self.by_place.get(place) == Some(&link.id)
        {
            self.by_place.remove(place);
        }
        if let Some(node) = link.identity().map(|identity| identity.node)
            && let Some(ids) = self.by_node.get_mut(&node)
        {
            ids.retain(|id| *id != link.id);
            if ids.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    pub(crate) fn at_place(&self, place: &Place) -> Option<Arc<Link>> {
        self.live(*self.by_place.get(place)?)
    }

    pub(crate) fn to_node(&self, node: u64) -> Option<Arc<Link>> {
        self.by_node.get(&node)?.iter().find_map(|&id| self.live(id))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Link>> {
        self.links.values().cloned().collect()
    }

    fn live(&self, id: u64) -> Option<Arc<Link>> {
        self.links.get(&id).filter(|link| link.ended().is_none()).cloned()
    }
}
