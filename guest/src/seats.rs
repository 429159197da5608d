//! Room for instances: for all together, and for those that an owner has in use, with their memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{Owner, sandbox::lock};

/// Counts instances, so that there are never more than the pool has room for, and that no owner's take what others need.
pub(crate) struct Seats {
    counts: Mutex<Counts>,
    max: u32,
    bytes_max: u64,
}

#[derive(Default)]
struct Counts {
    /// All instances.
    taken: u32,
    /// Those in use.
    used: Used,
    used_by: HashMap<Owner, Used>,
}

#[derive(Clone, Copy, Default)]
struct Used {
    instances: u64,
    bytes: u64,
}

impl Seats {
    /// Room for `max` instances, and for `bytes_max` bytes that those in use take from the node's budget.
    pub(crate) fn new(max: u32, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), max, bytes_max })
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        let mut counts = lock(&self.counts);
        (counts.taken < self.max).then(|| {
            counts.taken += 1;
            Seat(Arc::clone(self))
        })
    }

    /// Room among the instances in use. As there are never more of these than of all, whoever has it finds a seat, if need be that of an instance kept ready.
    pub(crate) fn place(self: &Arc<Self>, owner: Owner) -> Option<Arc<Place>> {
        let mut counts = lock(&self.counts);
        let (own, all) = (counts.of(owner).instances, counts.used.instances);
        owner.may_have(1, own, all, self.max.into()).then(|| {
            counts.change(owner, |used| used.instances += 1);
            Arc::new(Place { seats: Arc::clone(self), owner })
        })
    }

    pub(crate) fn taken(&self) -> u32 {
        lock(&self.counts).taken
    }
}

impl Counts {
    fn of(&self, owner: Owner) -> Used {
        self.used_by.get(&owner).copied().unwrap_or_default()
    }

    fn change(&mut self, owner: Owner, change: impl Fn(&mut Used)) {
        change(&mut self.used);
        let own = self.used_by.entry(owner).or_default();
        change(own);
        if own.instances == 0 {
            self.used_by.remove(&owner);
        }
    }
}

/// Room for one instance.
pub(crate) struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.0.counts).taken -= 1;
    }
}

/// Room for one instance in an owner's share, and for what the instance takes of the node's budget. It is given back after the instance's seat.
pub(crate) struct Place {
    seats: Arc<Seats>,
    owner: Owner,
}

impl Place {
    /// Whether the owner may have this many more bytes; if so, it has them.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let mut counts = lock(&self.seats.counts);
        let (own, all) = (counts.of(self.owner).bytes, counts.used.bytes);
        let may = self.owner.may_have(bytes, own, all, self.seats.bytes_max);
        if may {
            counts.change(self.owner, |used| used.bytes += bytes);
        }
        may
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.seats.counts).change(self.owner, |used| used.bytes -= bytes);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.seats.counts).change(self.owner, |used| used.instances -= 1);
    }
}
