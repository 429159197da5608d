//! Places for clerks: a bounded number in all, and fewer for one node, so that no node keeps the others out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use catena::{Exception, Fault, NodeId};

use crate::limits::{CLERKS_MAX, CLERKS_PER_NODE_MAX};

/// Those that are taken, by node.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<BTreeMap<NodeId, usize>>);

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    node: NodeId,
}

impl Places {
    pub(crate) fn taken(&self) -> usize {
        self.lock().values().sum()
    }

    /// # Errors
    /// `TooManyClerks`: no place is free, or none for this node.
    pub(crate) fn take(self: &Arc<Self>, node: NodeId) -> Result<Place, Exception> {
        let mut taken = self.lock();
        let full = |text| Err(Exception::new("TooManyClerks", Fault::Caller, text));
        if taken.values().sum::<usize>() >= CLERKS_MAX {
            return full(format!(
                "{CLERKS_MAX} clerks are served already (CLERKS_MAX); share one, or use another server"
            ));
        }
        let own = taken.entry(node).or_default();
        if *own >= CLERKS_PER_NODE_MAX {
            return full(format!("{CLERKS_PER_NODE_MAX} clerks of one node are served already (CLERKS_PER_NODE_MAX)"));
        }
        *own += 1;
        Ok(Place { of: Arc::clone(self), node })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        if let Some(own) = taken.get_mut(&self.node) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_node_cannot_keep_the_others_out_and_places_come_back() {
        let places = Arc::new(Places::default());
        let greedy: Vec<_> = (0..CLERKS_PER_NODE_MAX).map(|_| places.take(NodeId(1)).unwrap()).collect();
        assert_eq!(places.take(NodeId(1)).unwrap_err().name, "TooManyClerks");
        let rest = CLERKS_MAX - CLERKS_PER_NODE_MAX;
        let others: Vec<_> = (0..rest as u64).map(|node| places.take(NodeId(2 + node)).unwrap()).collect();
        assert_eq!(places.taken(), CLERKS_MAX);
        assert_eq!(places.take(NodeId(0)).unwrap_err().name, "TooManyClerks");
        drop(greedy);
        let _again = places.take(NodeId(1)).unwrap();
        drop(others);
        assert_eq!(places.taken(), 1);
    }
}
