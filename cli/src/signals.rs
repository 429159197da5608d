//! Ctrl-C, SIGTERM and SIGHUP, as events; and how nodes are closed at them.

use std::time::Duration;

use catena::Node;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
};

use crate::{failure::Failure, output::Output};

/// How long what is queued may take to go out.
const CLOSE_GRACE: Duration = Duration::from_millis(1_000);
/// How long closing may take in all.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_800);

/// These signals. From its making on they no longer end the process by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if whoever started this process wants it to outlive its terminal (`nohup`), and once it has come: a shell and the kernel both send it when a
    /// terminal is closed, and the second is no wish to end at once.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Needs a tokio runtime.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|why| Failure::cannot_start(format!("signals cannot be heard: {why}"), "try again"))
        };
        let hang_up = if outlives_terminal() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())?, hang_up })
    }

    /// Waits for the next of them. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        let Self { interrupt, terminate, hang_up } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(_) = async { hang_up.as_mut()?.recv().await } => *hang_up = None,
        }
    }

    /// What the work gives, unless a signal comes first: then the work is dropped.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            () = self.next() => Err(Failure::Interrupted),
        }
    }

    /// Waits for a signal, then closes all nodes side by side; a second signal ends it at once.
    pub(crate) async fn then_close(mut self, nodes: Vec<Node>, output: &Output) -> Result<(), Failure> {
        self.next().await;
        if !output.json {
            output.talk("closing; once more to end at once");
        }
        let mut closing: JoinSet<()> =
            nodes.into_iter().map(|node| async move { node.close(CLOSE_GRACE).await }).collect();
        let closed = async { while closing.join_next().await.is_some() {} };
        let in_time = async {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
            Ok(())
        };
        self.unless(in_time).await
    }
}

/// Whether SIGHUP was ignored when this process began; a handler of our own would undo that.
fn outlives_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
