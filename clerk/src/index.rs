//! The owner's record of its table: which slot holds which entry. It never reads the segment to find out, so nothing written there can mislead the owner.

use std::collections::HashMap;

use crate::layout::{Key, Shape};

/// What an entry depends on: a change of any of these makes it void.
pub type Groups = [Option<Key>; 2];

#[derive(Clone, Copy, Debug)]
struct Placed {
    key: Key,
    groups: Groups,
}

/// The owner's mirror of a table.
#[derive(Debug)]
pub(crate) struct Index {
    shape: Shape,
    slots: Vec<Option<Placed>>,
    groups: HashMap<Key, Vec<u32>>,
    placed: u64,
}

impl Index {
    /// Of an empty table.
    #[must_use]
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, slots: vec![None; shape.slots as usize], groups: HashMap::new(), placed: 0 }
    }

    /// How many entries there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Whether there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// The slot for a key: the one it already has, else an empty one of its two, else an occupied one of them in turn, whose entry is forgotten.
    pub(crate) fn place(&mut self, key: Key, groups: Groups) -> u32 {
        let two = self.shape.slots_of(key);
        let held = |slot: u32| self.slots[slot as usize].map(|placed| placed.key);
        let slot = two
            .into_iter()
            .find(|slot| held(*slot) == Some(key))
            .or_else(|| two.into_iter().find(|slot| held(*slot).is_none()))
            .unwrap_or(two[(self.placed % 2) as usize]);
        self.placed += 1;
        self.clear(slot);
        self.slots[slot as usize] = Some(Placed { key, groups });
        for group in groups.into_iter().flatten() {
            self.groups.entry(group).or_default().push(slot);
        }
        slot
    }

    /// Removes a key; returns its slot.
    pub(crate) fn remove(&mut self, key: Key) -> Option<u32> {
        let slot = self
            .shape
            .slots_of(key)
            .into_iter()
            .find(|slot| self.slots[*slot as usize].is_some_and(|placed| placed.key == key))?;
        self.clear(slot);
        Some(slot)
    }

    /// Removes all entries that depend on `group`; returns their slots.
    pub(crate) fn remove_group(&mut self, group: Key) -> Vec<u32> {
        let slots = self.groups.get(&group).cloned().unwrap_or_default();
        for slot in &slots {
            self.clear(*slot);
        }
        slots
    }

    fn clear(&mut self, slot: u32) {
        let Some(placed) = self.slots[slot as usize].take() else { return };
        for group in placed.groups.into_iter().flatten() {
            if let Some(slots) = self.groups.get_mut(&group) {
                slots.retain(|one| *one != slot);
                if slots.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(of: u32) -> Key {
        Key::of(&[&of.to_le_bytes()])
    }

    #[test]
    fn a_full_table_takes_new_entries_and_says_where_each_is() {
        let mut index = Index::new(Shape { slots: 16, sectors: 1, payload: 8 });
        for of in 0..1_000 {
            let slot = index.place(key(of), [Some(key(of % 7 + 10_000)), None]);
            assert_eq!(index.place(key(of), [Some(key(of % 7 + 10_000)), None]), slot, "a key has one place");
        }
        assert!(index.len() > 8 && index.len() <= 16, "{}", index.len());
        let removed: usize = (0..7).map(|group| index.remove_group(key(group + 10_000)).len()).sum();
        assert!(removed > 8);
        assert!(index.is_empty() && index.groups.is_empty(), "what depended on groups is gone with them");
    }

    #[test]
    fn an_entry_goes_with_either_of_its_groups() {
        let mut index = Index::new(Shape { slots: 16, sectors: 1, payload: 8 });
        for gone in [1, 2] {
            let slot = index.place(key(0), [Some(key(1)), Some(key(2))]);
            assert_eq!(index.remove_group(key(gone)), [slot]);
            assert_eq!(index.remove(key(0)), None);
        }
    }
}
