//! An access under way, and who waits for it.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Instant,
};

use catena_segment::{RemoteError, Width};

use crate::ffi::Mr;

/// Locks. A poisoned lock is used all the same: nothing here panics while it holds one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be done at the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Read,
    Write,
    /// The buffer holds the new word, the expected word, and room for the previous one: 8 bytes each.
    Swap(Width),
}

/// An access and its buffer, which belongs to the provider while the access is under way.
pub(crate) struct Operation {
    /// Room for the provider (`struct fi_context2`); its address names the operation.
    pub(crate) context: [usize; 8],
    pub(crate) what: What,
    pub(crate) offset: u64,
    pub(crate) buffer: Vec<u8>,
    /// The buffer's registration, where the provider wants one.
    pub(crate) local: Option<*mut Mr>,
    pub(crate) deadline: Instant,
    pub(crate) outcome: Arc<Outcome>,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (offset, bytes) = (self.offset, self.buffer.len());
        match self.what {
            What::Read => write!(f, "READ of {bytes} bytes at {offset}"),
            What::Write => write!(f, "WRITE of {bytes} bytes at {offset}"),
            What::Swap(width) => write!(f, "CAS of {} bytes at {offset}", width.bytes()),
        }
    }
}

/// The result of an access: the buffer, or why it failed.
type Came = Result<Vec<u8>, RemoteError>;

#[derive(Default)]
pub(crate) struct Outcome(Mutex<(Option<Came>, Option<Waker>)>);

impl Outcome {
    pub(crate) fn tell(&self, came: Came) {
        let mut state = lock(&self.0);
        state.0 = Some(came);
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Held by whoever waits. If it is dropped, the access goes on.
pub(crate) struct Waiting(pub(crate) Arc<Outcome>);

impl Future for Waiting {
    type Output = Came;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Came> {
        let mut state = lock(&self.0.0);
        match state.0.take() {
            Some(came) => Poll::Ready(came),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
