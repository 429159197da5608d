//! As many busy guests at once as there are cores. A guest that is done in the time in which it need not stand aside is not one of them; the others take
//! turns of that length, so that a hundred of them are not in the way of those who read from links.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, ready},
};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// One for each core, for all nodes of the process.
static CORES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))));

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A guest's turn. It is polled at once the first time, and then only with a core to itself.
pub(super) struct InTurn<F> {
    turn: Pin<Box<F>>,
    core: Option<Acquiring>,
}

impl<F: Future> InTurn<F> {
    pub(super) fn new(turn: F) -> Self {
        Self { turn: Box::pin(turn), core: None }
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // The semaphore is never closed, and one that were would not be a reason to stop.
        let core = match &mut self.core {
            Some(core) => ready!(core.as_mut().poll(cx)).ok(),
            None => None,
        };
        let polled = self.turn.as_mut().poll(cx);
        drop(core);
        if polled.is_pending() {
            self.core = Some(Box::pin(Arc::clone(&CORES).acquire_owned()));
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Waker,
    };

    use super::*;

    #[test]
    fn no_more_are_busy_than_there_are_cores_and_each_gets_its_turn() {
        let cores = CORES.available_permits();
        let steps = Arc::new(AtomicUsize::new(0));
        let guest = || {
            let steps = Arc::clone(&steps);
            InTurn::new(async move {
                for _ in 0..3 {
                    steps.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut guests: Vec<_> = (0..10).map(|_| guest()).collect();
        let held: Vec<_> = (0..cores).filter_map(|_| Arc::clone(&CORES).try_acquire_owned().ok()).collect();
        for _ in 0..3 {
            assert!(guests.iter_mut().all(|guest| Pin::new(guest).poll(cx).is_pending()));
        }
        assert_eq!(steps.load(Ordering::SeqCst), 10, "each once, and then no core was free");
        drop(held);
        while !guests.is_empty() {
            guests.retain_mut(|guest| Pin::new(guest).poll(cx).is_pending());
            assert_eq!(CORES.available_permits(), cores, "nobody keeps one");
        }
        assert_eq!(steps.load(Ordering::SeqCst), 30);
    }
}
