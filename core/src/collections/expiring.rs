//! What is remembered for a while, and only so much of it.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::Time;

/// A map whose entries are dropped when they are old, or when there are too many: the oldest first.
///
/// Times are those of the [`super::AwakeClock`].
#[derive(Clone, Debug)]
pub(crate) struct Expiring<K, V> {
    entries: BTreeMap<K, V>,
    since: VecDeque<(Time, K)>,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), since: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V> Expiring<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The entries from this key on, in order.
    pub(crate) fn from<'a>(&'a self, first: &K) -> impl Iterator<Item = (&'a K, &'a V)> {
        self.entries.range(first.clone()..)
    }

    /// The entry of this key, made if there is none. Beyond `entries_max` the oldest goes.
    pub(crate) fn entry(&mut self, awake: Time, key: K, entries_max: usize, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&key) {
            while self.entries.len() >= entries_max.max(1) {
                self.drop_oldest();
            }
            self.since.push_back((awake, key.clone()));
        }
        self.entries.entry(key).or_insert_with(make)
    }

    /// For a key that is not entered again.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key)
    }

    /// Drops what was entered `ttl_us` ago or before, and says what that was.
    pub(crate) fn expired(&mut self, awake: Time, ttl_us: u64) -> Vec<K> {
        let mut expired = Vec::new();
        while self.since.front().is_some_and(|(at, _)| awake.since(*at) >= ttl_us) {
            expired.extend(self.drop_oldest());
        }
        expired
    }

    fn drop_oldest(&mut self) -> Option<K> {
        let (_, key) = self.since.pop_front()?;
        self.entries.remove(&key).map(|_| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_go_and_so_do_the_oldest_of_too_many() {
        let mut map = Expiring::default();
        for at in 0..4_u64 {
            *map.entry(Time::from_us(at), at, 3, || 0) += at;
        }
        assert!(!map.contains(&0) && map.contains(&1));
        map.expired(Time::from_us(6), 4);
        assert!(!map.contains(&2) && map.get(&3) == Some(&3));
        *map.entry(Time::from_us(9), 3, 3, || 7) += 1;
        assert_eq!(map.get(&3), Some(&4), "an entry that is there is not made again");
    }
}
