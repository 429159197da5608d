//! Ctrl-C and SIGTERM, as events.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Both signals. From its making on they no longer end the process by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Needs a tokio runtime.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|why| Failure::cannot_start(format!("signals cannot be heard: {why}"), "try again"))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next of either. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// What the work gives, unless a signal comes first: then the work is dropped.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            () = self.next() => Err(Failure::Interrupted),
        }
    }
}
