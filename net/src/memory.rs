//! How much memory a node may hold, and who holds it.
//!
//! One [`MemoryBudget`] covers a whole node. Links charge the messages that they receive and send; other parts that keep much (guests, caches, chains) charge
//! the same budget through a clone of the handle. A charge is refused before the limit is exceeded: memory is taken after the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{Mutex, MutexGuard};

/// A limit of bytes shared by many. Cheap to clone; all clones are the same budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Account>);

#[derive(Debug)]
struct Account {
    bytes_max: u64,
    used: AtomicU64,
    whole: Option<MemoryBudget>,
    /// Held by whoever goes beyond the limit.
    beyond: Mutex<()>,
}

/// There is no room for that many more bytes: give something back, ask for less, or refuse the request that needs them (`Overloaded`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes more are over the budget of {bytes_max} bytes, of which {used_bytes} are in use")]
pub struct OverBudget {
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// The limit that was reached, in bytes.
    pub bytes_max: u64,
}

impl MemoryBudget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self::with(bytes_max, None)
    }

    /// A quota within this budget: whatever is charged to it is charged to both.
    #[must_use]
    pub fn part(&self, bytes_max: u64) -> Self {
        Self::with(bytes_max, Some(self.clone()))
    }

    fn with(bytes_max: u64, whole: Option<Self>) -> Self {
        Self(Arc::new(Account { bytes_max, used: AtomicU64::new(0), whole, beyond: Mutex::new(()) }))
    }

    /// Waits for the turn to take memory beyond the limit, uncharged, for as long as the turn is held: in the whole budget, only one at a time may do so.
    pub(crate) async fn beyond(&self) -> MutexGuard<'_, ()> {
        let mut whole = self;
        while let Some(wider) = &whole.0.whole {
            whole = wider;
        }
        whole.0.beyond.lock().await
    }

    /// The limit, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.0.used.load(Relaxed)
    }

    /// Bytes that can still be charged, here and in every budget of which this one is a part.
    pub fn left(&self) -> u64 {
        let left = self.bytes_max().saturating_sub(self.used());
        self.0.whole.as_ref().map_or(left, |whole| whole.left().min(left))
    }

    /// An empty lease, for something that has yet to grow.
    pub fn none(&self) -> Lease {
        Lease { from: self.clone(), bytes: 0 }
    }

    /// Charges `bytes` until the lease is dropped.
    ///
    /// # Errors
    /// There is no room, here or in a budget of which this one is a part. Nothing was charged.
    pub fn lease(&self, bytes: u64) -> Result<Lease, OverBudget> {
        self.take(bytes)?;
        Ok(Lease { from: self.clone(), bytes })
    }

    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        // Nothing more is never refused, even if others went over the limit ([`Lease::record`]).
        if bytes == 0 {
            return Ok(());
        }
        let bytes_max = self.0.bytes_max;
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= bytes_max);
        let taken = self.0.used.fetch_update(Relaxed, Relaxed, fits);
        taken.map_err(|used_bytes| OverBudget { bytes, used_bytes, bytes_max })?;
        let whole = self.0.whole.as_ref().map_or(Ok(()), |whole| whole.take(bytes));
        if whole.is_err() {
            self.0.used.fetch_sub(bytes, Relaxed);
        }
        whole
    }

    fn add(&self, bytes: u64) {
        self.0.used.fetch_add(bytes, Relaxed);
        self.0.whole.iter().for_each(|whole| whole.add(bytes));
    }

    fn give_back(&self, bytes: u64) {
        self.0.used.fetch_sub(bytes, Relaxed);
        self.0.whole.iter().for_each(|whole| whole.give_back(bytes));
    }
}

/// Bytes charged to a [`MemoryBudget`], given back on drop.
#[derive(Debug)]
#[must_use = "dropping a lease gives its bytes back"]
pub struct Lease {
    from: MemoryBudget,
    bytes: u64,
}

impl Lease {
    /// Bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge. It is never refused to reduce it, or to leave it as it is.
    ///
    /// # Errors
    /// There is no room for more: the lease is as it was.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.from.take(more)?,
            None => self.from.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Charges what is held already, over the limit if need be: then further charges are refused to everybody until enough is given back. For parts that bound
    /// themselves and report what they hold.
    pub fn record(&mut self, bytes: u64) {
        if self.resize(bytes).is_err() {
            self.from.add(bytes - self.bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.from.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_part_is_charged_to_the_whole_and_neither_is_exceeded() {
        let node = MemoryBudget::new(100);
        let (near, far) = (node.part(60), node.part(60));
        let mut lease = near.lease(50).unwrap();
        assert_eq!(near.lease(11).unwrap_err(), OverBudget { bytes: 11, used_bytes: 50, bytes_max: 60 });
        assert_eq!(far.lease(51).unwrap_err().bytes_max, 100, "the whole is the narrower here");
        assert_eq!((near.used(), far.used(), node.used()), (50, 0, 50), "a refusal charges nothing");
        lease.resize(60).unwrap();
        assert!(lease.resize(61).is_err());
        let other = far.lease(40).unwrap();
        lease.record(70);
        assert_eq!((lease.bytes(), node.used()), (70, 110), "what is held already counts");
        assert!(node.lease(1).is_err());
        lease.resize(70).unwrap();
        drop(other);
        assert_eq!(node.used(), 70);
        lease.resize(5).unwrap();
        assert_eq!((near.used(), node.used()), (5, 5));
        drop(lease);
        assert_eq!((near.used(), node.used()), (0, 0));
    }
}
