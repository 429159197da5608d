//! Numbered values that may overtake each other on the way; they are taken out in order, each once.

use alloc::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(crate) struct InOrder<V> {
    next: u32,
    held: BTreeMap<u32, V>,
}

impl<V> Default for InOrder<V> {
    fn default() -> Self {
        Self { next: 0, held: BTreeMap::new() }
    }
}

impl<V> InOrder<V> {
    /// How many have been taken out: the number of the next value.
    pub(crate) const fn next(&self) -> u32 {
        self.next
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        number < self.next || self.held.contains_key(&number)
    }

    /// Holds a value until those before it have come. The caller bounds what is held, but always lets in the next in order, which releases those behind it.
    pub(crate) fn insert(&mut self, number: u32, value: V) {
        self.held.insert(number, value);
    }

    /// The next `count` values have come and are taken out at once. False if values are held, since these may be among them.
    pub(crate) fn pass(&mut self, count: u32) -> bool {
        let passes = self.held.is_empty();
        if passes {
            self.next = self.next.saturating_add(count);
        }
        passes
    }

    pub(crate) fn pop(&mut self) -> Option<V> {
        let value = self.held.remove(&self.next)?;
        self.next = self.next.saturating_add(1);
        Some(value)
    }

    /// All values that are held, even if some before them are missing.
    pub(crate) fn into_held(self) -> impl Iterator<Item = V> {
        self.held.into_values()
    }
}
