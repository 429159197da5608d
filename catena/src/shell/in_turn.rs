//! As many busy guests run at once as there are cores. A guest that finishes before it has to yield does not count as busy. The others take turns of one
//! slice, on threads that the runtime does not count as its workers, and before each further turn the runtime has polled sockets and timers: so even a hundred
//! of them, or some in an operation in which they cannot yield, do not delay the tasks that read from links. A first turn runs where it was begun.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, ready},
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

/// One permit for each core, shared by all nodes of the process.
static CORES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))));

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// What a guest waits for before a turn.
enum Before {
    /// Nothing: it is the first.
    Nothing,
    /// The runtime polls sockets and timers. Guests wake themselves, and tokio runs 61 tasks that do before it polls; meanwhile nodes would take each other for
    /// lost.
    Look(JoinHandle<()>),
    /// A core becomes free.
    Core(Acquiring),
}

/// A guest's turn. Its first poll happens at once, and every later one only with a core to itself.
pub(super) struct InTurn<F> {
    turn: Pin<Box<F>>,
    before: Before,
    cores: Arc<Semaphore>,
}

impl<F: Future> InTurn<F> {
    pub(super) fn new(turn: F) -> Self {
        Self::among(Arc::clone(&CORES), turn)
    }

    fn among(cores: Arc<Semaphore>, turn: F) -> Self {
        Self { turn: Box::pin(turn), before: Before::Nothing, cores }
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Before::Look(looking) = &mut self.before {
            // If the runtime is shutting down, this task does not run.
            let _ = ready!(Pin::new(looking).poll(cx));
            self.before = acquire(&self.cores);
        }
        // The semaphore is never closed; even if it were, the guest should go on.
        let core = match &mut self.before {
            Before::Core(core) => ready!(core.as_mut().poll(cx)).ok(),
            Before::Nothing | Before::Look(_) => None,
        };
        let polled = match &core {
            Some(_) => on_a_thread_of_its_own(|| self.turn.as_mut().poll(cx)),
            None => self.turn.as_mut().poll(cx),
        };
        if polled.is_pending() {
            self.before = look(&self.cores, core);
        }
        polled
    }
}

/// Gives the thread's place as a worker to another thread meanwhile, if the runtime has others.
#[allow(
    clippy::disallowed_methods,
    reason = "the runtime's flavor is known, and a future that borrows cannot be sent to a blocking thread"
)]
fn on_a_thread_of_its_own<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn acquire(cores: &Arc<Semaphore>) -> Before {
    Before::Core(Box::pin(Arc::clone(cores).acquire_owned()))
}

/// Releases the core only after the runtime has polled; otherwise the core would go to the next guest without a poll.
fn look(cores: &Arc<Semaphore>, core: Option<OwnedSemaphorePermit>) -> Before {
    let Ok(runtime) = Handle::try_current() else { return acquire(cores) };
    Before::Look(runtime.spawn(async move {
        // A task that yields is woken after its thread has polled the I/O driver.
        tokio::task::yield_now().await;
        drop(core);
    }))
}

#[cfg(test)]
#[path = "in_turn_tests.rs"]
mod tests;
