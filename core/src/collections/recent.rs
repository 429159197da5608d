//! What was used lately, up to a limit.

use alloc::collections::BTreeMap;
use core::borrow::Borrow;

/// A map whose least recently used entry makes room for a new one.
#[derive(Clone, Debug)]
pub(crate) struct Recent<K, V> {
    /// Each with the number of its last use.
    entries: BTreeMap<K, (u64, V)>,
    /// Keys in the order of their last uses.
    uses: BTreeMap<u64, K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), uses: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V> Recent<K, V> {
    /// Looking at an entry does not count as a use.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Uses the entry of this key, created if there is none.
    pub(crate) fn entry(&mut self, key: K, entries_max: usize, make: impl FnOnce() -> V) -> &mut V {
        if let Some((used, _)) = self.entries.get(&key) {
            self.uses.remove(used);
        } else if self.entries.len() >= entries_max.max(1)
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.entries.remove(&oldest);
        }
        // Derived, not kept in a counter: maps that remember the same are then equal.
        let number = self.uses.last_key_value().map_or(0, |(last, _)| last + 1);
        self.uses.insert(number, key.clone());
        let (used, value) = self.entries.entry(key).or_insert_with(|| (number, make()));
        *used = number;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut recent = Recent::default();
        for key in ["a", "b", "a", "c"] {
            *recent.entry(key, 2, || 0) += 1;
        }
        assert_eq!(["a", "b", "c"].map(|key| recent.get(key)), [Some(&2), None, Some(&1)]);
        assert_eq!((recent.entries.len(), recent.uses.len()), (2, 2));
    }
}
