//! Lets a bounded number of calls in at a time, and a bounded number wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::FileError;

/// A bounded queue before a bounded number of places.
#[derive(Debug)]
pub struct Gate {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// A place inside the gate; dropping it gives the place back.
#[derive(Debug)]
pub struct Pass(#[expect(dead_code, reason = "held only to be dropped")] OwnedSemaphorePermit);

/// Counts one waiting call, also when the call is dropped while it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// A gate with this many places, before which this many calls may wait.
    #[must_use]
    pub fn new(running_max: usize, waiting_max: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(running_max)), waiting: AtomicUsize::new(0), waiting_max }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// [`FileError::Busy`] if too many wait already; `function` is named in it.
    pub async fn enter(&self, function: &str) -> Result<Pass, FileError> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Pass(permit));
        }
        let busy = || FileError::Busy { what: function.to_owned(), waiting_max: self.waiting_max };
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.waiting_max {
            return Err(busy());
        }
        // The semaphore is never closed while the gate lives, so this error does not come.
        Arc::clone(&self.places).acquire_owned().await.map(Pass).map_err(|_| busy())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[tokio::test]
    async fn the_queue_is_bounded_and_a_dropped_waiter_leaves_it() {
        let gate = Arc::new(Gate::new(1, 1));
        let pass = gate.enter("read").await.unwrap();
        {
            let mut waiter = Box::pin(gate.enter("read"));
            assert!(futures_poll(&mut waiter).is_none());
            assert_eq!(gate.enter("read").await.unwrap_err().name(), "FILES_BUSY");
        }
        let mut waiter = Box::pin(gate.enter("read"));
        assert!(futures_poll(&mut waiter).is_none());
        drop(pass);
        waiter.await.unwrap();
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
