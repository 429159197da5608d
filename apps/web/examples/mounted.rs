//! An application of `axum` behind a service ID, and a door to it for browsers: `cargo run --release -p catena-web --example mounted`.
#![allow(clippy::print_stdout, reason = "it says where its door is")]

use axum::{Router, routing};
use catena::Node;
use catena_web::{FetchLimits, Fetcher, Limits, Proxy, ProxyLimits, mount};
use hyper_util::service::TowerToHyperService;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shop = Router::new().route("/tea", routing::get(async || "green\n"));
    let node = Node::builder("here").listen("127.0.0.1:0").start().await?;
    let _mounted = mount(&node, "shop", TowerToHyperService::new(shop), Limits::default())?;

    let fetcher = Fetcher::new(node.client(), FetchLimits::default());
    let door = Proxy::open(fetcher, "shop", "127.0.0.1:7780", ProxyLimits::default()).await?;
    // Before it says that it is ready: whoever waits for that may interrupt it at once.
    let mut interrupts = signal(SignalKind::interrupt())?;
    println!("curl http://{}/tea", door.address());
    interrupts.recv().await;
    Ok(())
}
