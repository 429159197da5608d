//! Deadlines in order: one per key, found and removed in logarithmic time.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// At most one deadline per key.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K: Ord + Copy> {
    by_time: BTreeSet<(Time, K)>,
    by_key: BTreeMap<K, Time>,
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    pub(crate) fn set(&mut self, key: K, at: Time) {
        if let Some(before) = self.by_key.insert(key, at) {
            if before == at {
                return;
            }
            self.by_time.remove(&(before, key));
        }
        self.by_time.insert((at, key));
    }

    pub(crate) fn clear(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.by_key.retain(|key, _| keep(key));
        self.by_time.retain(|(_, key)| keep(key));
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn at(&self, key: &K) -> Option<Time> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Takes one key whose time has come.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<K> {
        let &(at, key) = self.by_time.first()?;
        if at > now {
            return None;
        }
        self.clear(key);
        Some(key)
    }
}
