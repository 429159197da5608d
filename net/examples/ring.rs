//! What a link costs beyond the socket: one small request at a time over loopback, by raw tokio TCP and by a link, in
//! one run. Then a bulk transfer, alone and with small requests beside it.
//!
//! `cargo run --release -p catena-net --example ring`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use catena_net::{Endpoint, EndpointConfig, Handler, Identity, Incoming, Link, LinkError, Message, Place};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

const REQUEST_BYTES: usize = 256;
const ROUNDS: usize = 20_000;
const BATCHES: usize = 7;
const BULK_BYTES: usize = 100 << 20;

/// Answers every message with itself, from the reader task.
struct Echo;
impl Handler for Echo {
    fn on_link(&self, _: &Arc<Link>) {}
    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming) {
        match incoming {
            Incoming::Whole(message) => peer.try_send(message).expect("room"),
            Incoming::Head { .. } => {}
            // Bulk is acknowledged, not sent back.
            Incoming::Tail { .. } => peer.try_send(Message::head(&b"bulk"[..])).expect("room"),
        }
    }
    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// Asks the next question from the reader task until the round is over.
#[derive(Default)]
struct Asker {
    left: Mutex<Option<(usize, oneshot::Sender<()>)>>,
    waiting: Mutex<Option<oneshot::Sender<Incoming>>>,
    bulk: Mutex<Option<mpsc::Sender<()>>>,
}
impl Handler for Asker {
    fn on_link(&self, _: &Arc<Link>) {}
    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming) {
        if let Incoming::Whole(message) = &incoming
            && &message.head[..] == b"bulk"
        {
            let _ = self.bulk.lock().unwrap().as_ref().unwrap().try_send(());
            return;
        }
        if let Some(waiting) = self.waiting.lock().unwrap().take() {
            let _ = waiting.send(incoming);
            return;
        }
        let mut left = self.left.lock().unwrap();
        let Some((count, done)) = left.take() else { return };
        if count == 0 {
            let _ = done.send(());
            return;
        }
        *left = Some((count - 1, done));
        drop(left);
        let Incoming::Whole(message) = incoming else { return };
        peer.try_send(message).expect("room");
    }
    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

async fn raw_round(stream: &mut TcpStream) -> f64 {
    let mut buffer = [7; REQUEST_BYTES];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        stream.write_all(&buffer).await.unwrap();
        stream.read_exact(&mut buffer).await.unwrap();
    }
    micros(start, ROUNDS)
}

fn micros(start: Instant, rounds: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / rounds as f64
}

/// The reader tasks answer each other.
async fn inline_round(link: &Link, asker: &Asker) -> f64 {
    let (done, finished) = oneshot::channel();
    *asker.left.lock().unwrap() = Some((ROUNDS - 1, done));
    let start = Instant::now();
    link.send(Message::head(vec![7; REQUEST_BYTES])).await.unwrap();
    finished.await.unwrap();
    micros(start, ROUNDS)
}

/// A task asks, and waits for the reader task to hand it the answer.
async fn task_round(link: &Link, asker: &Asker) -> f64 {
    let request = Bytes::from(vec![7; REQUEST_BYTES]);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        let (answer, answered) = oneshot::channel();
        *asker.waiting.lock().unwrap() = Some(answer);
        link.send(Message::head(request.clone())).await.unwrap();
        answered.await.unwrap();
    }
    micros(start, ROUNDS)
}

async fn beside_bulk(link: &Link, asker: &Asker, transfers: usize) -> (Vec<f64>, f64) {
    let (sender, mut receiver) = mpsc::channel(transfers);
    *asker.bulk.lock().unwrap() = Some(sender);
    let bulk = Bytes::from(vec![1; BULK_BYTES]);
    let start = Instant::now();
    for _ in 0..transfers {
        link.send(Message::new(&b"x"[..], bulk.clone())).await.unwrap();
    }
    let mut latencies = Vec::new();
    let mut arrived = 0;
    while arrived < transfers {
        while receiver.try_recv().is_ok() {
            arrived += 1;
        }
        let (answer, answered) = oneshot::channel();
        *asker.waiting.lock().unwrap() = Some(answer);
        let asked = Instant::now();
        link.send(Message::head(vec![7; REQUEST_BYTES])).await.unwrap();
        answered.await.unwrap();
        latencies.push(micros(asked, 1));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (latencies, (transfers * BULK_BYTES) as f64 / start.elapsed().as_secs_f64() / 1e6)
}

async fn raw_bulk() -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut receiver, _) = listener.accept().await.unwrap();
    let bulk = vec![1; BULK_BYTES];
    let start = Instant::now();
    let reading = tokio::spawn(async move {
        // Into one growing buffer, as a message must be.
        let mut all = Vec::new();
        while receiver.read_buf(&mut all).await.unwrap() > 0 {}
        assert_eq!(all.len(), BULK_BYTES);
    });
    sender.write_all(&bulk).await.unwrap();
    drop(sender);
    reading.await.unwrap();
    BULK_BYTES as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut raw = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    raw.set_nodelay(true).unwrap();
    let (mut echo, _) = listener.accept().await.unwrap();
    echo.set_nodelay(true).unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; REQUEST_BYTES];
        while echo.read_exact(&mut buffer).await.is_ok() {
            echo.write_all(&buffer).await.unwrap();
        }
    });

    let identity = |node| Identity { node, site: None, hello: Bytes::new() };
    let config = EndpointConfig { listen: Some(([127, 0, 0, 1], 0).into()), ..EndpointConfig::default() };
    let server = Endpoint::bind(config).await.unwrap().start(identity(1), Arc::new(Echo)).unwrap();
    let asker = Arc::new(Asker::default());
    let client = Endpoint::bind(EndpointConfig::default()).await.unwrap().start(identity(2), asker.clone()).unwrap();
    let place = Place::new(server.local_address().unwrap().to_string());
    let link = client.link(&place).await.unwrap();
    link.introduced().await.unwrap();

    // As tasks, like the link's own: the main thread is no worker.
    let (mut tcp, mut inline, mut task) = tokio::spawn({
        let (link, asker) = (link.clone(), asker.clone());
        async move {
            let (mut tcp, mut inline, mut task) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..BATCHES {
                tcp.push(raw_round(&mut raw).await);
                inline.push(inline_round(&link, &asker).await);
                task.push(task_round(&link, &asker).await);
            }
            (tcp, inline, task)
        }
    })
    .await
    .unwrap();
    println!("{REQUEST_BYTES} bytes there and back, one at a time, median of {BATCHES} x {ROUNDS}:");
    let base = median(&mut tcp);
    println!("  raw tokio TCP        {base:7.2} us   {:.2} .. {:.2}", tcp[0], tcp[BATCHES - 1]);
    for (name, values) in [("link, handler asks", &mut inline), ("link, task asks", &mut task)] {
        let middle = median(values);
        let (low, high) = (values[0], values[BATCHES - 1]);
        println!("  {name:20} {middle:7.2} us   {low:.2} .. {high:.2}   {:.2} x raw", middle / base);
    }
    let mut raw_rates: Vec<f64> = Vec::new();
    for _ in 0..3 {
        raw_rates.push(raw_bulk().await);
    }
    let (mut latencies, rate) = tokio::spawn(async move { beside_bulk(&link, &asker, 5).await }).await.unwrap();
    println!("{} MB messages:", BULK_BYTES >> 20);
    println!("  raw tokio TCP        {:7.0} MB/s", median(&mut raw_rates));
    println!("  link                 {rate:7.0} MB/s");
    let middle = median(&mut latencies);
    println!("  a small request beside it: median {middle:.0} us, worst {:.0} us", latencies[latencies.len() - 1]);
    client.close(Duration::from_secs(1)).await;
    server.close(Duration::from_secs(1)).await;
}
