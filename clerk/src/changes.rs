//! Keeps a stale value from being entered into a table: the data that was read for an entry may change before the entry is made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::layout::Key;

/// Groups are hashed onto this many counters: a change of one group keeps out, for a moment, entries of others on its counter, and does nothing worse.
const COUNTERS: usize = 1_024;

/// Which groups changed when. Guarantee: an entry that was read before a change of its groups ended is not entered after that change began.
#[derive(Clone, Debug)]
pub struct Changes(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    clock: u64,
    under_way: Vec<u32>,
    last: Vec<u64>,
}

/// The moment at which somebody began to read the data for an entry.
#[derive(Clone, Copy, Debug)]
pub struct Look(u64);

/// A change under way; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the change ends when this is dropped"]
pub struct Changing {
    changes: Changes,
    counters: Vec<usize>,
}

impl Default for Changes {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { clock: 0, under_way: vec![0; COUNTERS], last: vec![0; COUNTERS] })))
    }
}

fn counter_of(group: Key) -> usize {
    group.0[0] as usize % COUNTERS
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before reading the data for an entry.
    #[must_use]
    pub fn look(&self) -> Look {
        Look(self.state().clock)
    }

    /// Calls `enter` for data that was read since `look`, unless one of its groups has changed since; returns whether it did.
    pub fn enter(&self, look: Look, groups: impl IntoIterator<Item = Key>, enter: impl FnOnce()) -> bool {
        let state = self.state();
        let fresh = groups.into_iter().map(counter_of).all(|at| state.under_way[at] == 0 && state.last[at] <= look.0);
        if fresh {
            enter();
        }
        fresh
    }

    /// Begins a change of these groups. The caller removes the entries that depend on them after this call, and before it makes the change.
    pub fn begin(&self, groups: impl IntoIterator<Item = Key>) -> Changing {
        let counters: Vec<usize> = groups.into_iter().map(counter_of).collect();
        let mut state = self.state();
        for at in &counters {
            state.under_way[*at] += 1;
        }
        drop(state);
        Changing { changes: self.clone(), counters }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let mut state = self.changes.state();
        state.clock += 1;
        for at in &self.counters {
            state.under_way[*at] -= 1;
            state.last[*at] = state.clock;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_or_during_a_change_is_not_entered() {
        let (changes, mine, other) = (Changes::default(), Key([1, 0]), Key([2, 0]));
        let enter = |look, group| changes.enter(look, [group], || {});
        let before = changes.look();
        let change = changes.begin([mine]);
        let during = changes.look();
        assert!(!enter(during, mine), "under way");
        assert!(enter(during, other), "another's change");
        drop(change);
        assert!(!enter(before, mine) && !enter(during, mine), "read before it ended");
        assert!(enter(changes.look(), mine));
    }
}
