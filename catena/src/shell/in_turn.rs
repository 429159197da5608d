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
#[path = "in_turn_tests.rs"]
mod tests;
