//! Whether anything is still under way when all chains have ended.

use std::time::Duration;

use catena::Client;
use tokio::time::{Instant, sleep, timeout};

use crate::{chains::TIMEOUT, node::service_name, patience::within};

/// What is left of a chain waits no longer than the chain may last, and for as long again at a node that was stopped meanwhile.
const PATIENCE: Duration = TIMEOUT.saturating_add(Duration::from_secs(5));
const PAUSE: Duration = Duration::from_millis(200);
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What is left when nothing ends any more: chains, calls that wait and service functions, of all nodes.
pub(crate) struct Left {
    pub(crate) running: usize,
    pub(crate) after: Duration,
}

/// Waits until nothing is left, or for as long as anything may take.
pub(crate) async fn wait(client: &Client, nodes: usize) -> Left {
    // Until a node has said otherwise, something is under way at it.
    let (begun, mut running) = (Instant::now(), nodes);
    let quiet = async {
        loop {
            running = load(client, nodes).await;
            if running == 0 {
                return;
            }
            sleep(PAUSE).await;
        }
    };
    within(PATIENCE, quiet).await;
    Left { running, after: begun.elapsed() }
}

/// A node that does not answer has something under way.
async fn load(client: &Client, nodes: usize) -> usize {
    let mut sum = 0;
    for node in 0..nodes {
        let service = service_name(node);
        let asked = client.call::<_, (usize, usize, usize)>(&service, "load", &());
        sum += match timeout(ANSWER_MAX, asked).await {
            Ok(Ok((chains, waiting, running))) => chains + waiting + running,
            Ok(Err(_)) | Err(_) => 1,
        };
    }
    sum
}
