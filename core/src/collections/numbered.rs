//! Values under numbers. Places are reused, each time under a new number, so that an old number finds nothing.

use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Place<T> {
    /// How often this place was used before.
    round: u32,
    value: Option<T>,
}

impl<T> Numbered<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns the value's number: the place in the lower half, the round in the upper.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { round: 0, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        number(index, place.round)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let place = self.places.get(number as u32 as usize)?;
        place.value.as_ref().filter(|_| u64::from(place.round) == number >> 32)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.places.get_mut(number as u32 as usize)?;
        place.value.as_mut().filter(|_| u64::from(place.round) == number >> 32)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        let place = self.places.get_mut(number as u32 as usize)?;
        place.round = place.round.wrapping_add(1);
        self.free.push(number as u32);
        place.value.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let places = self.places.iter().zip(0_u32..);
        places.filter_map(|(place, index)| Some((number(index, place.round), place.value.as_ref()?)))
    }
}

fn number(index: u32, round: u32) -> u64 {
    u64::from(round) << 32 | u64::from(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_number() {
        let mut all = Numbered::new();
        let (one, two) = (all.insert('1'), all.insert('2'));
        assert_eq!(all.remove(one), Some('1'));
        let three = all.insert('3');
        assert!(three != one && three as u32 == one as u32);
        assert!(all.get(one).is_none() && all.get_mut(one).is_none() && all.remove(one).is_none());
        assert_eq!((all.get(two), all.get(three), all.get(7), all.len()), (Some(&'2'), Some(&'3'), None, 2));
        assert!(all.iter().eq([(three, &'3'), (two, &'2')]));
    }
}
