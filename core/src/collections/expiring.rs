//! What is remembered for a while, and only up to a limit.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{AT_ONCE_MAX, Party, Shares};
use crate::Time;

/// A map whose entries are dropped when they are old, or when there are too many. [`Shares`] says whose entries go first, so that no party can evict others'
/// history.
///
/// Times are those of the [`super::AwakeClock`].
#[derive(Clone, Debug)]
pub(crate) struct Expiring<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// Keys in the order in which they were entered; then those of each party, in the same order.
    since: BTreeMap<u64, K>,
    of_party: BTreeSet<(Party, u64)>,
    shares: Shares<Party>,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    number: u64,
    at: Time,
    by: Party,
    value: V,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        let (entries, since) = (BTreeMap::new(), BTreeMap::new());
        Self { entries, since, of_party: BTreeSet::new(), shares: Shares::default() }
    }
}

impl<K: Ord + Clone, V> Expiring<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The entries from this key on, in order.
    pub(crate) fn from(&self, first: K) -> impl Iterator<Item = (&K, &V)> {
        self.entries.range(first..).map(|(key, entry)| (key, &entry.value))
    }

    /// The entry of this key, created if there is none: then it counts toward this party's share.
    pub(crate) fn entry(
        &mut self,
        awake: Time,
        by: Party,
        key: K,
        entries_max: usize,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        // Derived, not kept in a counter: maps that remember the same are then equal.
        let number = self.since.last_key_value().map_or(0, |(last, _)| last + 1);
        if !self.entries.contains_key(&key) {
            while self.make_room(by, entries_max).is_some() {}
            self.since.insert(number, key.clone());
            self.of_party.insert((by, number));
            self.shares.add_sized(by, 1);
        }
        &mut self.entries.entry(key).or_insert_with(|| Entry { number, at: awake, by, value: make() }).value
    }

    /// Like [`Expiring::entry`], but an existing entry becomes as old as one that is made now.
    pub(crate) fn renew(
        &mut self,
        awake: Time,
        by: Party,
        key: K,
        entries_max: usize,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        let known = self.remove(&key);
        self.entry(awake, by, key, entries_max, || known.unwrap_or_else(make))
    }

    /// Drops and returns an entry, if there is no room for one more of this party's.
    pub(crate) fn make_room(&mut self, by: Party, entries_max: usize) -> Option<(K, V)> {
        if self.entries.len() < entries_max.max(1) {
            return None;
        }
        let party = self.shares.gives_way(by, 1)?;
        let (_, number) = *self.of_party.range((party, 0)..).next()?;
        self.drop(number)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let number = self.entries.get(key)?.number;
        self.drop(number).map(|(_, value)| value)
    }

    /// Drops and returns what was entered at least `ttl_us` ago, the oldest first: [`AT_ONCE_MAX`] of it at most.
    pub(crate) fn expired(&mut self, awake: Time, ttl_us: u64) -> Vec<(K, V)> {
        let mut expired = Vec::new();
        while expired.len() < AT_ONCE_MAX
            && let Some((number, key)) = self.since.first_key_value()
            && self.entries.get(key).is_none_or(|entry| awake.since(entry.at) >= ttl_us)
        {
            let number = *number;
            expired.extend(self.drop(number));
        }
        expired
    }

    fn drop(&mut self, number: u64) -> Option<(K, V)> {
        let key = self.since.remove(&number)?;
        let Entry { by, value, .. } = self.entries.remove(&key)?;
        self.of_party.remove(&(by, number));
        self.shares.remove_sized(by, 1);
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use catena_wire::NodeId;

    use super::*;

    const ONE: Party = Party::Node(NodeId(1));
    const OTHER: Party = Party::Node(NodeId(2));

    #[test]
    fn the_old_go_and_so_do_the_oldest_of_too_many() {
        let mut map = Expiring::default();
        for at in 0..4_u64 {
            *map.entry(Time::from_us(at), ONE, at, 3, || 0) += at;
        }
        assert!(!map.contains(&0) && map.contains(&1));
        assert_eq!(map.expired(Time::from_us(6), 4), [(1, 1), (2, 2)]);
        assert!(!map.contains(&2) && map.get(&3) == Some(&3));
        *map.entry(Time::from_us(9), OTHER, 3, 3, || 7) += 1;
        assert_eq!(map.get(&3), Some(&4), "an entry that is there is not made again");
    }

    #[test]
    fn what_one_peer_enters_drops_nothing_of_another_that_has_less() {
        let mut map = Expiring::default();
        map.entry(Time::from_us(0), ONE, 0, 8, || ());
        for key in 1..100 {
            map.entry(Time::from_us(key), OTHER, key, 8, || ());
        }
        assert!(map.contains(&0) && !map.contains(&92) && map.contains(&93) && map.contains(&99));
    }

    #[test]
    fn a_flood_that_is_old_goes_in_parts_the_oldest_first() {
        let mut map = Expiring::default();
        let flood = AT_ONCE_MAX as u64 + 2;
        for key in 0..flood {
            map.entry(Time::from_us(0), ONE, key, usize::MAX, || ());
        }
        assert_eq!(map.expired(Time::from_us(9), 4).len(), AT_ONCE_MAX);
        assert_eq!(map.expired(Time::from_us(9), 4), [(flood - 2, ()), (flood - 1, ())]);
    }

    #[test]
    fn what_is_entered_anew_is_as_old_as_that() {
        let mut map = Expiring::default();
        map.entry(Time::from_us(0), ONE, 'a', 8, || 1);
        assert_eq!(map.remove(&'a'), Some(1));
        map.entry(Time::from_us(5), ONE, 'a', 8, || 2);
        assert!(map.expired(Time::from_us(8), 5).is_empty() && map.contains(&'a'));
        assert_eq!(map.expired(Time::from_us(10), 5), [('a', 2)]);
        map.entry(Time::from_us(20), ONE, 'a', 8, || 3);
        assert_eq!(*map.renew(Time::from_us(24), ONE, 'a', 8, || 4), 3);
        assert!(map.expired(Time::from_us(28), 5).is_empty());
        assert_eq!(map.expired(Time::from_us(29), 5), [('a', 3)]);
        assert!(map.entries.is_empty() && map.since.is_empty() && map.of_party.is_empty() && map.shares.all() == 0);
    }
}
