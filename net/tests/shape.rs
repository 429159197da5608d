//! Shaped links, in virtual time: tokio's timer is one millisecond coarse, so arrivals may be that much late, once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use catena_net::{Endpoint, EndpointConfig, Incoming, Link, LinkShape, Measured, Message, Place, Topology};
use support::{Events, Memory, bind, identity, measured_beyond};
use tokio::time::Instant;

const STREAM_BYTES: usize = 64 * 1024;

fn shaped(memory: &Memory, port: Option<u16>, topology: Topology) -> EndpointConfig {
    EndpointConfig { topology: Some(Arc::new(topology)), ..memory.config(port) }
}

fn assert_about(measured: Duration, expected_us: u64) {
    let expected = Duration::from_micros(expected_us);
    let late = measured.checked_sub(expected).unwrap_or_else(|| panic!("{measured:?} is before {expected:?}"));
    assert!(late <= Duration::from_millis(2), "{measured:?} is {late:?} after {expected:?}");
}

/// A node in Mountain View, one in Beijing, and the link that Mountain View dialled, introduced and quiet.
struct Scene {
    mtv: Endpoint,
    link: Arc<Link>,
    at_bei: Events,
    bei: Endpoint,
    at_mtv: Events,
    memory: Memory,
}

async fn scene() -> Scene {
    let memory = Memory::new(STREAM_BYTES);
    let (bei, mut at_bei) = bind(shaped(&memory, Some(1), Topology::paper()), identity(1, Some("bei"))).await;
    let (mtv, mut at_mtv) = bind(shaped(&memory, None, Topology::paper()), identity(2, Some("mtv"))).await;
    let link = mtv.link(&memory.place(1).in_site("bei")).await.unwrap();
    at_bei.up().await;
    at_mtv.up().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Scene { mtv, link, at_bei, bei, at_mtv, memory }
}

async fn tail(events: &mut Events) -> usize {
    loop {
        if let Incoming::Tail { tail, .. } = events.message().await {
            return tail.len();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_message_needs_one_way_only() {
    let memory = Memory::new(STREAM_BYTES);
    let (_bei, mut at_bei) = bind(shaped(&memory, Some(1), Topology::paper()), identity(1, Some("bei"))).await;
    let (mtv, mut at_mtv) = bind(shaped(&memory, None, Topology::paper()), identity(2, Some("mtv"))).await;
    let start = Instant::now();
    let link = mtv.link(&memory.place(1).in_site("bei")).await.unwrap();
    link.send(Message::head(&b"now"[..])).await.unwrap();
    at_bei.up().await;
    assert_about(start.elapsed(), 90_000);
    at_bei.message().await;
    assert_about(start.elapsed(), 90_000);
    at_mtv.up().await;
    assert_about(start.elapsed(), 180_000);
}

#[tokio::test(start_paused = true)]
async fn delay_and_ping_are_the_papers() {
    let mut scene = scene().await;
    let start = Instant::now();
    scene.link.send(Message::head(&b"x"[..])).await.unwrap();
    scene.at_bei.message().await;
    assert_about(start.elapsed(), 90_000);
    assert_about(Duration::from_micros(scene.link.stats().round_trip_us.unwrap()), 180_000);
}

#[tokio::test(start_paused = true)]
async fn bandwidth_is_the_papers_and_errors_do_not_add_up() {
    let mut scene = scene().await;
    let sent_before = scene.link.stats().bytes_sent;
    let start = Instant::now();
    scene.link.send(Message::new(&b"h"[..], vec![1; 21_000_000])).await.unwrap();
    assert_eq!(tail(&mut scene.at_bei).await, 21_000_000);
    // Every byte on the wire counts: headers of fragments, two pings.
    let wire_bytes = scene.link.stats().bytes_sent - sent_before;
    assert!((21_000_000..21_500_000).contains(&wire_bytes), "{wire_bytes}");
    assert_about(start.elapsed(), 90_000 + wire_bytes * 1_000_000 / 2_100_000);
}

fn assert_near(measured: Option<u64>, shaped: u64, percent: u64) {
    let measured = measured.expect("measured");
    assert!(measured.abs_diff(shaped) * 100 <= shaped * percent, "{measured} is not within {percent} % of {shaped}");
}

#[tokio::test(start_paused = true)]
async fn what_is_measured_is_what_was_shaped() {
    let mut scene = scene().await;
    let back = scene.bei.link_to_node(2).unwrap();
    assert_eq!(back.measured().bytes_per_s, None, "nothing long has come");
    for tail_bytes in [140_000, 1_000_000, 5_000_000] {
        scene.link.send(Message::new(&b"h"[..], vec![1; tail_bytes])).await.unwrap();
        assert_eq!(tail(&mut scene.at_bei).await, tail_bytes);
        assert_near(back.stats().bytes_per_s, 2_100_000, 5);
        assert_near(back.measured().bytes_per_s, 2_100_000, 30);
    }
    for link in [&scene.link, &back] {
        assert_near(link.stats().round_trip_us, 180_000, 3);
        assert_near(link.measured().round_trip_us, 180_000, 20);
    }
    assert_eq!(scene.link.measured().bytes_per_s, None, "nothing came this way");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_carries_bulk_is_not_taken_for_a_longer_one() {
    let mut scene = scene().await;
    let back = scene.bei.link_to_node(2).unwrap();
    // Bulk both ways for 30 s: six pings go beside it.
    for _ in 0..30 {
        let bulk = || Message::new(&b"h"[..], vec![1; 2_100_000]);
        scene.link.send(bulk()).await.unwrap();
        back.send(bulk()).await.unwrap();
        tail(&mut scene.at_bei).await;
        tail(&mut scene.at_mtv).await;
    }
    for link in [&scene.link, &back] {
        assert_near(link.stats().round_trip_us, 180_000, 5);
        assert_near(link.stats().bytes_per_s, 2_100_000, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn measurements_are_told_when_they_are_new_and_not_again() {
    let mut scene = scene().await;
    let back = scene.bei.link_to_node(2).unwrap();
    let near = measured_beyond(&back, Measured::default()).await;
    assert!(near.round_trip_us.is_some() && near.bytes_per_s.is_none());
    scene.link.send(Message::new(&b"h"[..], vec![1; 300_000])).await.unwrap();
    tail(&mut scene.at_bei).await;
    let both = measured_beyond(&back, near).await;
    assert!(both.bytes_per_s.is_some());
    let mut later = Box::pin(back.measured_beyond(both));
    for _ in 0..10 {
        scene.link.send(Message::new(&b"h"[..], vec![1; 300_000])).await.unwrap();
        tail(&mut scene.at_bei).await;
        let waited = tokio::time::timeout(Duration::from_secs(10), &mut later).await;
        assert!(waited.is_err(), "{waited:?} differs little from {both:?}");
    }
    scene.mtv.close(Duration::from_secs(1)).await;
    assert_eq!(later.await, None, "the link has ended");
}

#[tokio::test(start_paused = true)]
async fn control_overtakes_bulk_that_waits_for_bandwidth() {
    let mut scene = scene().await;
    scene.link.send(Message::new(&b"h"[..], vec![1; 5_000_000])).await.unwrap();
    assert!(matches!(scene.at_bei.message().await, Incoming::Head { .. }));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let start = Instant::now();
    scene.link.send(Message::head(&b"control"[..])).await.unwrap();
    assert!(matches!(scene.at_bei.message().await, Incoming::Whole(_)), "before the tail");
    // At most the 2 ms of bytes ahead, and one fragment of 1 ms.
    let waited = start.elapsed();
    assert!(waited <= Duration::from_millis(90 + 5), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn links_to_one_site_share_its_bandwidth() {
    let mut scene = scene().await;
    let memory = &scene.memory;
    let (_bei2, mut at_bei2) = bind(shaped(memory, Some(2), Topology::paper()), identity(3, Some("bei"))).await;
    let second = scene.mtv.link(&memory.place(2).in_site("bei")).await.unwrap();
    at_bei2.up().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    scene.link.send(Message::new(&b"h"[..], vec![1; 2_100_000])).await.unwrap();
    second.send(Message::new(&b"h"[..], vec![1; 2_100_000])).await.unwrap();
    // Control on one link does not starve behind bulk on the other.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = Instant::now();
    second.send(Message::head(&b"control"[..])).await.unwrap();
    let (first_done, second_done) = tokio::join!(
        async {
            tail(&mut scene.at_bei).await;
            start.elapsed()
        },
        async {
            while !matches!(at_bei2.message().await, Incoming::Whole(_)) {}
            assert!(asked.elapsed() <= Duration::from_millis(90 + 7), "{:?}", asked.elapsed());
            tail(&mut at_bei2).await;
            start.elapsed()
        }
    );
    let last = first_done.max(second_done);
    assert!(last >= Duration::from_millis(2_090) && last <= Duration::from_millis(2_150), "{last:?}");
    let first = first_done.min(second_done);
    assert!(first >= Duration::from_millis(1_700), "neither is served alone: {first:?}");
}

#[tokio::test(start_paused = true)]
async fn the_listener_shapes_its_direction_and_strangers_are_not_shaped() {
    let memory = Memory::new(STREAM_BYTES);
    let topology = Topology::new().with("here", "there", LinkShape::new(50_000, 0));
    let (there, mut at_there) = bind(shaped(&memory, Some(1), topology.clone()), identity(1, Some("there"))).await;
    let (here, mut at_here) = bind(shaped(&memory, None, topology.clone()), identity(2, Some("here"))).await;
    // The site is not known when dialling: the hello tells.
    let link = here.link(&memory.place(1)).await.unwrap();
    let back = at_there.up().await;
    at_here.up().await;
    for (link, events) in [(&back, &mut at_here), (&link, &mut at_there)] {
        let start = Instant::now();
        link.send(Message::head(&b"x"[..])).await.unwrap();
        events.message().await;
        assert_about(start.elapsed(), 50_000);
    }
    let (moon, _at_moon) = bind(shaped(&memory, None, topology), identity(3, Some("moon"))).await;
    let start = Instant::now();
    let link = moon.link(&Place::new("127.0.0.1:1")).await.unwrap();
    link.send(Message::head(&b"x"[..])).await.unwrap();
    at_there.up().await;
    at_there.message().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(there);
}

#[tokio::test(start_paused = true)]
async fn a_pipe_before_a_peer_that_does_not_read_stays_bounded() {
    let memory = Memory::new(STREAM_BYTES);
    let topology = Topology::new().with("here", "there", LinkShape::new(10_000, 0));
    let mut callers = memory.raw_listener(1);
    let (here, _events) = bind(shaped(&memory, None, topology), identity(2, Some("here"))).await;
    let link = here.link(&memory.place(1).in_site("there")).await.unwrap();
    let _peer = callers.recv().await.unwrap();
    let mut accepted = 0_u64;
    for _ in 0..200 {
        while link.try_send(Message::head(vec![0; 16_000])).is_ok() {
            accepted += 16_000;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // At most what the pipe holds when its bandwidth is unlimited (64 MiB), and the queue.
    assert!((4 << 20..70 << 20).contains(&accepted), "{accepted}");
    assert!(link.try_send(Message::head(vec![0; 16_000])).is_err(), "still full");
}
