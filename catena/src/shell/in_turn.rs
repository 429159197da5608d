//! As many busy guests at once as there are cores. A guest that is done in the time in which it need not stand aside is not one of them; the others take
//! turns of that length, and before its next turn the runtime has looked after sockets and timers: so a hundred of them are not in the way of those who read
//! from links.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, ready},
};

use tokio::{
    runtime::Handle,
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

/// One for each core, for all nodes of the process.
static CORES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))));

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// What comes before a turn.
enum Before {
    /// Nothing: it is the first.
    Nothing,
    /// The runtime looks after sockets and timers. Guests wake themselves, and of tasks that do tokio runs 61 before it looks: nodes would take each other for
    /// lost meanwhile.
    Look(JoinHandle<()>),
    /// A core is free.
    Core(Acquiring),
}

/// A guest's turn. It is polled at once the first time, and then only with a core to itself.
pub(super) struct InTurn<F> {
    turn: Pin<Box<F>>,
    before: Before,
}

impl<F: Future> InTurn<F> {
    pub(super) fn new(turn: F) -> Self {
        Self { turn: Box::pin(turn), before: Before::Nothing }
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Before::Look(looking) = &mut self.before {
            // A runtime that ends lets nobody look any more.
            let _ = ready!(Pin::new(looking).poll(cx));
            self.before = acquire();
        }
        // The semaphore is never closed, and one that were would not be a reason to stop.
        let core = match &mut self.before {
            Before::Core(core) => ready!(core.as_mut().poll(cx)).ok(),
            Before::Nothing | Before::Look(_) => None,
        };
        let polled = self.turn.as_mut().poll(cx);
        if polled.is_pending() {
            self.before = look(core);
        }
        polled
    }
}

fn acquire() -> Before {
    Before::Core(Box::pin(Arc::clone(&CORES).acquire_owned()))
}

/// Gives a core back after the look, or it would go to the next guest without one.
fn look(core: Option<OwnedSemaphorePermit>) -> Before {
    let Ok(runtime) = Handle::try_current() else { return acquire() };
    Before::Look(runtime.spawn(async move {
        // Whoever yields is woken when its thread has polled the driver.
        tokio::task::yield_now().await;
        drop(core);
    }))
}

#[cfg(test)]
#[path = "in_turn_tests.rs"]
mod tests;
