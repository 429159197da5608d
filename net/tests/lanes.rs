//! Bulk never delays control, and a peer that does not read holds up its own link only. In memory, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use catena_net::{Incoming, LinkError, Message, SendRefused};
use support::{Event, Memory, bind, identity, shake_hands};
use tokio::io::AsyncReadExt;

/// The stream holds 64 KiB, so what overtakes does so in the sender.
const STREAM_BYTES: usize = 64 * 1024;

#[tokio::test(start_paused = true)]
async fn small_and_medium_overtake_100_mb() {
    let memory = Memory::new(STREAM_BYTES);
    let (_server, mut at_server) = bind(memory.config(Some(1)), identity(1, None)).await;
    let (client, _events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(1)).await.unwrap();
    link.introduced().await.unwrap();
    at_server.up().await;
    let bulk = Bytes::from(vec![7; 100_000_000]);
    link.send(Message::new(&b"bulk"[..], bulk.clone())).await.unwrap();
    let Incoming::Head { head, tail_bytes, .. } = at_server.message().await else { panic!("the head comes first") };
    assert_eq!((&head[..], tail_bytes), (&b"bulk"[..], 100_000_000));

    link.send(Message::head(&b"small"[..])).await.unwrap();
    link.send(Message::new(&b"medium"[..], vec![3; 200_000])).await.unwrap();
    link.send_lazily(Message::head(&b"lazy"[..])).unwrap();
    let mut order = Vec::new();
    let mut received = 0;
    while order.last() != Some(&"bulk") {
        match at_server.message().await {
            Incoming::Whole(message) => order.push(if message.head == b"small"[..] { "small" } else { "lazy" }),
            Incoming::Head { .. } => {}
            Incoming::Tail { tail, .. } if tail.len() == 200_000 => {
                order.push("medium");
                received = link.stats().bytes_sent;
            }
            Incoming::Tail { tail, .. } => {
                assert!(tail == bulk);
                order.push("bulk");
            }
        }
    }
    assert_eq!(order, ["small", "lazy", "medium", "bulk"]);
    assert!(received < 5_000_000, "medium came after {received} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_makes_senders_wait_and_nothing_grows() {
    let memory = Memory::new(STREAM_BYTES);
    let (server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let mut peer = memory.connect(1);
    shake_hands(&mut peer, 9).await;
    let link = events.up().await;
    let message = || Message::head(vec![5; 10_000]);
    let mut accepted = 0;
    let refused = loop {
        match link.try_send(message()) {
            Ok(()) => accepted += 1,
            Err(refused) => break refused,
        }
    };
    let SendRefused::Full(back) = refused else { panic!("{refused}") };
    assert_eq!(back, message(), "the message comes back");
    let queue_bytes_max = u64::from(memory.config(None).small_queue_bytes_max);
    assert!(link.stats().queued_bytes <= queue_bytes_max);
    assert!((400..450).contains(&accepted), "{accepted} x 10 KB are about 4 MiB");
    assert!(matches!(link.send_lazily(message()), Err(LinkError::QueueFull { .. })));

    let mut waiting = Box::pin(link.send(message()));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("no room, so it must wait"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    // Dropped before it was ready, it leaves nothing behind.
    let sent_before = link.stats().messages_sent;
    drop(waiting);
    assert_eq!(link.stats().messages_sent, sent_before);

    // The other lanes have room of their own.
    link.try_send(Message::head(vec![1; 20_000])).unwrap();

    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.send(message()).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let mut buffer = vec![0; 1 << 20];
    while !waiting.is_finished() {
        assert_ne!(peer.read(&mut buffer).await.unwrap(), 0);
    }
    waiting.await.unwrap().unwrap();
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn senders_that_wait_fail_when_the_peer_dies() {
    let memory = Memory::new(STREAM_BYTES);
    let (_server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let mut peer = memory.connect(1);
    shake_hands(&mut peer, 9).await;
    let link = events.up().await;
    while link.try_send(Message::head(vec![5; 10_000])).is_ok() {}
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.send(Message::head(vec![1; 10_000])).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(peer);
    let why = events.lost().await;
    assert_eq!(waiting.await.unwrap(), Err(why.clone()));
    assert_eq!(link.send(Message::default()).await, Err(why));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(events.is_empty(), "a link is lost once");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up_after_three_pings() {
    let memory = Memory::new(STREAM_BYTES);
    let (_server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let mut peer = memory.connect(1);
    shake_hands(&mut peer, 9).await;
    let _link = events.up().await;
    let start = tokio::time::Instant::now();
    let why = events.lost().await;
    assert!(matches!(why, LinkError::Silent { .. }), "{why}");
    let waited = start.elapsed();
    assert!((Duration::from_secs(15)..=Duration::from_secs(21)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_link_between_live_nodes_stays() {
    let memory = Memory::new(STREAM_BYTES);
    let (_server, mut at_server) = bind(memory.config(Some(1)), identity(1, None)).await;
    let (client, mut at_client) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(1)).await.unwrap();
    at_server.up().await;
    at_client.up().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(at_server.is_empty() && at_client.is_empty() && link.ended().is_none());
    link.send(Message::head(&b"still here"[..])).await.unwrap();
    assert!(matches!(at_server.next().await, Event::Message(_)));
}

#[tokio::test(start_paused = true)]
async fn lazy_messages_go_after_five_milliseconds_or_with_the_next() {
    let memory = Memory::new(STREAM_BYTES);
    let (_server, mut at_server) = bind(memory.config(Some(1)), identity(1, None)).await;
    let (client, _events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(1)).await.unwrap();
    link.introduced().await.unwrap();
    at_server.up().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..3 {
        let start = tokio::time::Instant::now();
        link.send_lazily(Message::head(&b"alone"[..])).unwrap();
        at_server.message().await;
        let waited = start.elapsed();
        assert!((Duration::from_millis(4)..=Duration::from_millis(7)).contains(&waited), "{waited:?}");

        let start = tokio::time::Instant::now();
        link.send_lazily(Message::head(&b"first"[..])).unwrap();
        link.send(Message::head(&b"second"[..])).await.unwrap();
        assert_eq!(at_server.message().await, Incoming::Whole(Message::head(&b"first"[..])));
        assert_eq!(at_server.message().await, Incoming::Whole(Message::head(&b"second"[..])));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
