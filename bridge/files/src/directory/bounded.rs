//! A map with a bounded number of entries: the least recently used one makes room.

use std::collections::HashMap;
use std::hash::Hash;

/// Making room looks at every entry, which is cheap at the sizes used here (64 and 1,024) and happens once per new key.
#[derive(Debug)]
pub(super) struct Bounded<K, V> {
    entries: HashMap<K, (V, u64)>,
    entries_max: usize,
    uses: u64,
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), entries_max, uses: 0 }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        self.uses += 1;
        let (value, used) = self.entries.get_mut(key)?;
        *used = self.uses;
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        if !self.entries.contains_key(&key)
            && self.entries.len() >= self.entries_max
            && let Some(oldest) = self.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
        {
            self.entries.remove(&oldest);
        }
        self.entries.insert(key, (value, self.uses));
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_unused_for_longest_makes_room() {
        let mut map = Bounded::new(2);
        map.insert(1, "one");
        map.insert(2, "two");
        assert_eq!(map.get(&1), Some(&"one"));
        map.insert(3, "three");
        assert_eq!(map.entries.len(), 2);
        assert_eq!(map.get(&1), Some(&"one"));
        assert_eq!(map.get(&2), None);
        assert_eq!(map.get(&3), Some(&"three"));
    }
}
