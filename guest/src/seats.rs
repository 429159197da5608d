//! Room for instances: for all together, and for those that an owner has in use.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{Owner, sandbox::lock};

/// Counts instances, so that there are never more than the pool has room for, and that no owner's take what others need.
pub(crate) struct Seats {
    counts: Mutex<Counts>,
    max: u32,
}

#[derive(Default)]
struct Counts {
    /// All instances.
    taken: u32,
    /// Those in use.
    used: u32,
    used_by: HashMap<Owner, u32>,
}

impl Seats {
    pub(crate) fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), max })
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        let mut counts = lock(&self.counts);
        (counts.taken < self.max).then(|| {
            counts.taken += 1;
            Seat(Arc::clone(self))
        })
    }

    /// Room among the instances in use. As there are never more of these than of all, whoever has it finds a seat, if need be that of an instance kept ready.
    pub(crate) fn place(self: &Arc<Self>, owner: Owner) -> Option<Place> {
        let mut counts = lock(&self.counts);
        let own = counts.used_by.get(&owner).copied().unwrap_or_default();
        owner.may_have_more(own as usize, counts.used as usize, self.max as usize).then(|| {
            counts.used += 1;
            counts.used_by.insert(owner, own + 1);
            Place { seats: Arc::clone(self), owner }
        })
    }

    pub(crate) fn taken(&self) -> u32 {
        lock(&self.counts).taken
    }
}

/// Room for one instance.
pub(crate) struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.0.counts).taken -= 1;
    }
}

/// Room for one instance in an owner's share.
pub(crate) struct Place {
    seats: Arc<Seats>,
    owner: Owner,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.seats.counts);
        counts.used -= 1;
        if let Some(used) = counts.used_by.get_mut(&self.owner) {
            *used -= 1;
            if *used == 0 {
                counts.used_by.remove(&self.owner);
            }
        }
    }
}
