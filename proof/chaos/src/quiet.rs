//! Whether anything is still under way when all chains have ended.

use std::{fmt, time::Duration};

use catena::Client;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use crate::{chains::TIMEOUT, node::service_name, patience::within};

/// What is left of a chain waits no longer than the chain may last, and for as long again at a node that was stopped meanwhile.
const PATIENCE: Duration = TIMEOUT.saturating_add(Duration::from_secs(5));
const PAUSE: Duration = Duration::from_millis(200);
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What is left when nothing ends any more, of all nodes.
pub(crate) struct Left {
    loads: Vec<Load>,
    after: Duration,
}

/// What is under way at one node.
enum Load {
    Said { node: usize, chains: usize, calls: usize, functions: usize },
    Silent { node: usize },
}

/// Waits until nothing is left, or for as long as anything may take.
pub(crate) async fn wait(client: &Client, nodes: usize) -> Left {
    let begun = Instant::now();
    // Until a node has said otherwise, something is under way at it.
    let mut loads: Vec<_> = (0..nodes).map(|node| Load::Silent { node }).collect();
    let quiet = async {
        loop {
            loads = all_loads(client, nodes).await;
            if loads.is_empty() {
                return;
            }
            sleep(PAUSE).await;
        }
    };
    within(PATIENCE, quiet).await;
    Left { loads, after: begun.elapsed() }
}

/// Of the nodes at which something is under way.
async fn all_loads(client: &Client, nodes: usize) -> Vec<Load> {
    join_all((0..nodes).map(|node| load(client, node))).await.into_iter().flatten().collect()
}

/// Of a node; `None` if nothing is under way there.
async fn load(client: &Client, node: usize) -> Option<Load> {
    let service = service_name(node);
    let asked = client.call::<_, (usize, usize, usize)>(&service, "load", &());
    match timeout(ANSWER_MAX, asked).await {
        Ok(Ok((0, 0, 0))) => None,
        Ok(Ok((chains, calls, functions))) => Some(Load::Said { node, chains, calls, functions }),
        Ok(Err(_)) | Err(_) => Some(Load::Silent { node }),
    }
}

impl Left {
    /// How many things; a node that does not answer counts as one.
    pub(crate) fn running(&self) -> usize {
        let of = |load: &Load| match load {
            Load::Said { chains, calls, functions, .. } => chains + calls + functions,
            Load::Silent { .. } => 1,
        };
        self.loads.iter().map(of).sum()
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after_ms = self.after.as_millis();
        if self.loads.is_empty() {
            return write!(f, "{after_ms:>8}  ms until nothing was left running");
        }
        write!(f, "{after_ms:>8}  ms, and then there was still")?;
        self.loads.iter().try_for_each(|load| write!(f, "; {load}"))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said { node, chains, calls, functions } => {
                write!(f, "at node {node} {chains} chains, {calls} calls, {functions} functions")
            }
            Self::Silent { node } => write!(f, "node {node}, which does not answer"),
        }
    }
}
