//! How true a shaped link is in real time: a small message and a 1 MB one over the paper's links, against arithmetic.
//!
//! `cargo run --release -p catena-net --example shape`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use catena_net::{Endpoint, EndpointConfig, Handler, Identity, Incoming, Link, LinkError, Message, Place, Topology};
use tokio::sync::mpsc;

const ROUNDS: usize = 15;
const BULK_BYTES: usize = 1_000_000;

/// Tells when something has come whole.
struct Clock(mpsc::Sender<Instant>);
impl Handler for Clock {
    fn on_link(&self, _: &Arc<Link>) {}
    fn on_message(&self, _: &Arc<Link>, incoming: Incoming) {
        if !matches!(incoming, Incoming::Head { .. }) {
            let _ = self.0.try_send(Instant::now());
        }
    }
    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

async fn measure(link: &Link, arrivals: &mut mpsc::Receiver<Instant>, message: Message) -> f64 {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        link.send(message.clone()).await.unwrap();
        times.push((arrivals.recv().await.unwrap() - start).as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let topology = Arc::new(Topology::paper());
    let (sender, mut arrivals) = mpsc::channel(16);
    let config = EndpointConfig { topology: Some(topology.clone()), ..EndpointConfig::default() };
    let identity = |node, site: &str| Identity { node, site: Some(site.to_owned()), hello: Bytes::new() };
    let listening = EndpointConfig { listen: Some(([127, 0, 0, 1], 0).into()), ..config.clone() };
    let server =
        Endpoint::bind(listening).await.unwrap().start(identity(1, "mtv"), Arc::new(Clock(sender.clone()))).unwrap();
    for site in ["mtv", "red", "bei"] {
        let shape = topology.between("mtv", site).unwrap();
        let client = Endpoint::bind(config.clone())
            .await
            .unwrap()
            .start(identity(2, site), Arc::new(Clock(sender.clone())))
            .unwrap();
        let place = Place::new(server.local_address().unwrap().to_string()).in_site("mtv");
        let link = client.link(&place).await.unwrap();
        link.introduced().await.unwrap();
        let small = measure(&link, &mut arrivals, Message::head(vec![1; 200])).await;
        let bulk = measure(&link, &mut arrivals, Message::new(vec![1; 10], vec![1; BULK_BYTES])).await;
        let delay = shape.delay_us as f64 / 1e3;
        let long = delay + BULK_BYTES as f64 / shape.bytes_per_s as f64 * 1e3;
        println!("{site}: small {small:7.2} ms, bound {delay:7.2}; 1 MB {bulk:7.2} ms, bound {long:7.2}");
    }
}
