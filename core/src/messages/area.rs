//! Which ranges are in use in memory that is lent to one partner.

use alloc::vec::Vec;

/// Ranges begin at multiples of this, in bytes, so that no two share a cache line.
const LINE: u64 = 64;

/// Ranges in use in a memory of `bytes` bytes. The lowest free range is taken first: its pages are there already.
#[derive(Debug)]
pub struct Area {
    bytes: u64,
    /// First byte and end of each, in order.
    used: Vec<(u64, u64)>,
    spoiled: bool,
}

impl Area {
    /// Nothing is in use.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, used: Vec::new(), spoiled: false }
    }

    /// Takes a range of `bytes` bytes; returns where it begins. `None` if there is no room.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        if self.spoiled {
            return None;
        }
        let (mut first, mut at) = (0_u64, 0);
        while let Some((begins, ends)) = self.used.get(at) {
            if first.checked_add(bytes)? <= *begins {
                break;
            }
            first = ends.next_multiple_of(LINE);
            at += 1;
        }
        let end = first.checked_add(bytes).filter(|end| *end <= self.bytes)?;
        self.used.insert(at, (first, end));
        Some(first)
    }

    /// Gives back the range that begins there.
    pub fn give_back(&mut self, first: u64) {
        if let Ok(at) = self.used.binary_search_by_key(&first, |(begins, _)| *begins) {
            self.used.remove(at);
        }
    }

    /// A partner may still write to a range that nobody waits for any more: from now on no range is taken here.
    pub const fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Whether no range can be taken any more.
    #[must_use]
    pub const fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Whether nothing is in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ranges_never_overlap_and_all_room_comes_back() {
        let mut area = Area::new(1_000);
        let mut held: Vec<(u64, u64)> = Vec::new();
        let mut state = 7_u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = state >> 33;
            if drawn.is_multiple_of(3) && !held.is_empty() {
                let (first, _) = held.swap_remove(drawn as usize % held.len());
                area.give_back(first);
            } else if let Some(first) = area.take(drawn % 300 + 1) {
                let end = first + drawn % 300 + 1;
                assert!(end <= 1_000 && first.is_multiple_of(LINE));
                assert!(held.iter().all(|(begins, ends)| end <= *begins || *ends <= first), "{first} {end} {held:?}");
                held.push((first, end));
            }
        }
        held.drain(..).for_each(|(first, _)| area.give_back(first));
        assert!(area.is_empty());
        assert_eq!((area.take(1_000), area.take(1)), (Some(0), None));
        area.give_back(0);
        assert_eq!((area.take(1_001), area.take(u64::MAX)), (None, None));
        area.spoil();
        assert_eq!(area.take(1), None, "what somebody may still write to is not given away");
    }
}
