//! Step records, found by key and by chain. There are up to hundreds of thousands, and each is looked up a few times, minutes apart: so the index of chains is
//! small, and a chain's record lies beside it. For most chains a node has one record.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, btree_map::Entry},
};
use catena_wire::{ChainId, StepKey};

#[derive(Clone, Debug)]
pub(super) struct Records<R> {
    chains: BTreeMap<Place, ChainRecords<R>>,
}

impl<R> Default for Records<R> {
    fn default() -> Self {
        Self { chains: BTreeMap::new() }
    }
}

/// A chain's place in the order. Its number comes first, since it is drawn at random and distinguishes most chains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place([u64; 3]);

#[derive(Clone, Debug)]
enum ChainRecords<R> {
    One(Box<(StepKey, R)>),
    Many(BTreeMap<StepKey, R>),
}

impl Place {
    const fn of(chain: ChainId) -> Self {
        let ChainId { origin, number } = chain;
        Self([(number >> 64) as u64, number as u64, origin.0])
    }
}

impl<R> Records<R> {
    pub(super) fn get(&self, key: &StepKey) -> Option<&R> {
        match self.chains.get(&Place::of(key.chain))? {
            ChainRecords::One(one) => Some(&one.1).filter(|_| one.0 == *key),
            ChainRecords::Many(many) => many.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &StepKey) -> Option<&mut R> {
        match self.chains.get_mut(&Place::of(key.chain))? {
            ChainRecords::One(one) => Some(&mut one.1).filter(|_| one.0 == *key),
            ChainRecords::Many(many) => many.get_mut(key),
        }
    }

    /// The chain's records, in the order of their keys.
    pub(super) fn of_chain(&self, chain: ChainId) -> impl Iterator<Item = (&StepKey, &R)> {
        let (one, many) = match self.chains.get(&Place::of(chain)) {
            None => (None, None),
            Some(ChainRecords::One(one)) => (Some((&one.0, &one.1)), None),
            Some(ChainRecords::Many(many)) => (None, Some(many.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub(super) fn of_chain_mut(&mut self, chain: ChainId) -> impl Iterator<Item = &mut R> {
        let (one, many) = match self.chains.get_mut(&Place::of(chain)) {
            None => (None, None),
            Some(ChainRecords::One(one)) => (Some(&mut one.1), None),
            Some(ChainRecords::Many(many)) => (None, Some(many.values_mut())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The last such record of the same branch up to this step.
    pub(super) fn last_up_to(&self, key: &StepKey, is_such: impl Fn(&R) -> bool) -> Option<(&StepKey, &R)> {
        match self.chains.get(&Place::of(key.chain))? {
            ChainRecords::One(one) => Some((&one.0, &one.1))
                .filter(|(at, record)| at.branch == key.branch && at.step <= key.step && is_such(record)),
            ChainRecords::Many(many) => {
                let first = StepKey { step: 0, ..key.clone() };
                many.range(&first..=key).rev().find(|(_, record)| is_such(record))
            }
        }
    }

    /// Returns the record that was there before.
    pub(super) fn insert(&mut self, key: StepKey, record: R) -> Option<R> {
        match self.chains.entry(Place::of(key.chain)) {
            Entry::Vacant(place) => {
                place.insert(ChainRecords::One(Box::new((key, record))));
                None
            }
            Entry::Occupied(steps) => steps.into_mut().insert(key, record),
        }
    }

    pub(super) fn remove(&mut self, key: &StepKey) {
        let Entry::Occupied(mut steps) = self.chains.entry(Place::of(key.chain)) else { return };
        let is_empty = match steps.get_mut() {
            ChainRecords::One(one) => one.0 == *key,
            ChainRecords::Many(many) => {
                many.remove(key);
                many.is_empty()
            }
        };
        if is_empty {
            steps.remove();
        }
    }
}

impl<R> ChainRecords<R> {
    fn insert(&mut self, key: StepKey, record: R) -> Option<R> {
        match self {
            Self::One(one) if one.0 == key => Some(core::mem::replace(&mut one.1, record)),
            Self::Many(many) => many.insert(key, record),
            Self::One(_) => {
                if let Self::One(one) = core::mem::replace(self, Self::Many(BTreeMap::new()))
                    && let Self::Many(many) = self
                {
                    many.extend([*one, (key, record)]);
                }
                None
            }
        }
    }
}
