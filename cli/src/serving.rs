//! Nodes of this process: running until a signal, then closed cleanly.

use std::time::Duration;

use catena::Node;
use tokio::task::JoinSet;

use crate::{failure::Failure, output::Output, signals::Signals};

/// How long what is queued may take to go out.
const CLOSE_GRACE: Duration = Duration::from_millis(1_000);
/// How long closing may take in all.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_800);

/// Runs until Ctrl-C or SIGTERM, then closes all nodes side by side; a second signal ends it at once.
pub(crate) async fn until_signal(nodes: Vec<Node>, mut signals: Signals, output: &Output) -> Result<(), Failure> {
    signals.next().await;
    if !output.json {
        output.talk("closing; once more to end at once");
    }
    let mut closing: JoinSet<()> = nodes.into_iter().map(|node| async move { node.close(CLOSE_GRACE).await }).collect();
    let closed = async {
        while closing.join_next().await.is_some() {}
        Ok(())
    };
    signals.unless(async { tokio::time::timeout(CLOSE_TIMEOUT, closed).await.unwrap_or(Ok(())) }).await
}
