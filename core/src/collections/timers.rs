//! Deadlines in order: one per key, found and removed in logarithmic time.

use alloc::collections::{BTreeMap, BTreeSet};
use core::borrow::Borrow;

use crate::Time;

#[derive(Clone, Debug)]
pub(crate) struct Timers<K> {
    by_time: BTreeSet<(Time, K)>,
    by_key: BTreeMap<K, Time>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Timers<K> {
    pub(crate) fn set(&mut self, key: K, at: Time) {
        if let Some(before) = self.by_key.insert(key.clone(), at) {
            if before == at {
                return;
            }
            self.by_time.remove(&(before, key.clone()));
        }
        self.by_time.insert((at, key));
    }

    /// Moves a deadline that is later than `at` to `at`.
    pub(crate) fn bring_forward<Q: Ord + ?Sized>(&mut self, key: &Q, at: Time)
    where
        K: Borrow<Q>,
    {
        if let Some((key, _)) = self.by_key.get_key_value(key).filter(|(_, before)| at < **before) {
            self.set(key.clone(), at);
        }
    }

    pub(crate) fn clear<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some((key, at)) = self.by_key.remove_entry(key) {
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

    pub(crate) fn at<Q: Ord + ?Sized>(&self, key: &Q) -> Option<Time>
    where
        K: Borrow<Q>,
    {
        self.by_key.get(key).copied()
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes one key whose deadline has come. Who takes all that are due bounds them by [`AT_ONCE_MAX`].
    pub(crate) fn take_due(&mut self, now: Time) -> Option<K> {
        if self.next()? <= now { self.take_first() } else { None }
    }

    pub(crate) fn take_first(&mut self) -> Option<K> {
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}
