//! What several messages of one read lead to goes out in few writes; what a lone one leads to goes out at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use catena_net::transport::{Connection, Listener, Transport};
use catena_net::{Endpoint, Frame, Handler, Incoming, Link, LinkError, Message};
use support::{Memory, identity, read_frames, shake_hands};
use tokio::io::{AsyncWrite, AsyncWriteExt, DuplexStream};

/// Fewer than end a turn.
const MESSAGES: usize = 50;

/// Answers each message with itself.
struct Echo;

impl Handler for Echo {
    fn on_link(&self, _: &Arc<Link>) {}
    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming) {
        let Incoming::Whole(message) = incoming else { panic!("it is small") };
        assert_ne!(&message.head[..], b"panic", "as the test wants it");
        peer.try_send(message).unwrap();
    }
    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// Streams in memory, of which the writes are counted.
struct Counting(Memory, Arc<AtomicUsize>);

struct Counted(Box<dyn AsyncWrite + Send + Unpin>, Arc<AtomicUsize>);

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[async_trait]
impl Transport for Counting {
    async fn dial(&self, address: &str) -> io::Result<Connection> {
        let Connection { reader, writer, peer, host } = self.0.dial(address).await?;
        Ok(Connection { reader, writer: Box::new(Counted(writer, Arc::clone(&self.1))), peer, host })
    }
    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.0.listen(address).await
    }
}

struct Peer {
    _endpoint: Endpoint,
    link: Arc<Link>,
    raw: DuplexStream,
    writes: Arc<AtomicUsize>,
}

/// An endpoint that has dialled, and the raw other end.
async fn linked() -> Peer {
    let memory = Memory::new(1 << 20);
    let mut callers = memory.raw_listener(1);
    let writes = Arc::new(AtomicUsize::new(0));
    let mut config = memory.config(None);
    config.transport = Arc::new(Counting(memory.clone(), Arc::clone(&writes)));
    let endpoint = Endpoint::bind(config).await.unwrap().start(identity(2, None), Arc::new(Echo)).unwrap();
    let link = endpoint.link(&memory.place(1)).await.unwrap();
    let mut raw = callers.recv().await.unwrap();
    shake_hands(&mut raw, 1).await;
    link.introduced().await.unwrap();
    assert!(matches!(read_frames(&mut raw).await[..], [Frame::Ping { .. }]), "it measures at once");
    Peer { _endpoint: endpoint, link, raw, writes }
}

fn frames(texts: impl IntoIterator<Item = String>) -> Vec<u8> {
    texts.into_iter().flat_map(|text| Frame::Whole(Message::head(text)).encode()).collect()
}

async fn echoes(raw: &mut DuplexStream, count: usize) -> Vec<Bytes> {
    let mut heads = Vec::new();
    while heads.len() < count {
        for frame in read_frames(raw).await {
            let Frame::Whole(Message { head, .. }) = frame else { panic!("unexpected: {frame:?}") };
            heads.push(head);
        }
    }
    heads
}

#[tokio::test(start_paused = true)]
async fn what_one_read_leads_to_goes_out_together_and_in_order() {
    let mut peer = linked().await;
    let before = peer.writes.load(Relaxed);
    let texts: Vec<_> = (0..MESSAGES).map(|number| number.to_string()).collect();
    peer.raw.write_all(&frames(texts.clone())).await.unwrap();
    assert_eq!(echoes(&mut peer.raw, MESSAGES).await, texts);
    // A slow machine writes now and then, when the first has waited for long enough.
    let writes = peer.writes.load(Relaxed) - before;
    assert!(writes < MESSAGES, "{writes} writes");
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_message_that_has_come_in_part() {
    let mut peer = linked().await;
    let mut bytes = frames(["first".to_owned(), "second".to_owned()]);
    bytes.truncate(bytes.len() - 1);
    peer.raw.write_all(&bytes).await.unwrap();
    assert_eq!(echoes(&mut peer.raw, 1).await, ["first"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_leaves_nothing_unwritten_on_its_thread() {
    let mut panics = linked().await;
    let mut lives = linked().await;
    let texts = ["before", "panic", "after"].map(str::to_owned);
    panics.raw.write_all(&frames(texts)).await.unwrap();
    while panics.link.ended().is_none() {
        tokio::task::yield_now().await;
    }
    lives.link.try_send(Message::head("from the same thread")).unwrap();
    assert_eq!(echoes(&mut lives.raw, 1).await, ["from the same thread"]);
}
