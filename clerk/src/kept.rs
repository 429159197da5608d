//! What a clerk keeps for itself for a while.

use std::{collections::HashMap, time::Duration};

use crate::layout::Key;

/// A bounded cache with a period of validity. Guarantee: what it returns was put there at most that long ago.
#[derive(Debug)]
pub struct Kept<V> {
    entries: HashMap<Key, (V, Duration)>,
    entries_max: usize,
    valid: Duration,
}

impl<V: Clone> Kept<V> {
    /// With a bound, and a period of validity; zero keeps nothing.
    #[must_use]
    pub fn new(entries_max: usize, valid: Duration) -> Self {
        Self { entries: HashMap::new(), entries_max, valid }
    }

    /// What is kept for a key; `now` is on the clock of [`Kept::put`].
    #[must_use]
    pub fn get(&self, key: Key, now: Duration) -> Option<V> {
        let (value, since) = self.entries.get(&key)?;
        (now.saturating_sub(*since) < self.valid).then(|| value.clone())
    }

    /// Keeps a value. If the cache is full, expired entries are dropped; if none has expired, all are.
    pub fn put(&mut self, key: Key, value: V, now: Duration) {
        if self.valid.is_zero() {
            return;
        }
        if self.entries.len() >= self.entries_max && !self.entries.contains_key(&key) {
            let valid = self.valid;
            self.entries.retain(|_, (_, since)| now.saturating_sub(*since) < valid);
            if self.entries.len() >= self.entries_max {
                self.entries.clear();
            }
        }
        self.entries.insert(key, (value, now));
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: Key) {
        self.entries.remove(&key);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_after_its_time_and_no_more_is_kept_than_the_bound() {
        let second = Duration::from_secs;
        let mut kept = Kept::new(3, second(10));
        let key = |of: u8| Key::of(&[&[of]]);
        kept.put(key(0), "a", second(0));
        assert_eq!(kept.get(key(0), second(9)), Some("a"));
        assert_eq!(kept.get(key(0), second(10)), None);
        for of in 1..100 {
            kept.put(key(of), "b", second(20));
            assert!(kept.entries.len() <= 3);
        }
        assert_eq!(kept.get(key(99), second(20)), Some("b"));
        let mut none = Kept::new(3, Duration::ZERO);
        none.put(key(0), "a", second(0));
        assert_eq!(none.get(key(0), second(0)), None);
    }
}
