//! What a peer may send, and what it gets for it: its link closed, with the reason, and nobody else hurt.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use bytes::Bytes;
use catena_net::{
    Endpoint, Frame, FrameError, Hello, Incoming, Limits, LinkError, Measured, Message, VERSION, encode_hello,
};
use support::{Event, Events, Memory, bind, identity, measured_beyond, read_frames, read_to_close, shake_hands};
use tokio::io::AsyncWriteExt;

struct Scene {
    memory: Memory,
    _server: Endpoint,
    _client: Endpoint,
    events: Events,
    good: std::sync::Arc<catena_net::Link>,
}

/// A listener with one well-behaved peer.
async fn scene() -> Scene {
    let memory = Memory::new(1 << 20);
    let (server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let (client, _) = bind(memory.config(None), identity(2, None)).await;
    let good = client.link(&memory.place(1)).await.unwrap();
    events.up().await;
    Scene { memory, _server: server, _client: client, events, good }
}

impl Scene {
    /// The well-behaved peer noticed nothing.
    async fn check_good(&mut self) {
        assert!(self.good.ended().is_none());
        self.good.send(Message::head(&b"fine"[..])).await.unwrap();
        assert_eq!(self.events.message().await, Incoming::Whole(Message::head(&b"fine"[..])));
    }

    /// After a correct hello the peer sends `bytes`: what does its link end with?
    async fn check(mut self, bytes: Vec<u8>, expected: FrameError) {
        let mut peer = self.memory.connect(1);
        shake_hands(&mut peer, 66).await;
        let link = self.events.up().await;
        peer.write_all(&bytes).await.unwrap();
        let why = loop {
            match self.events.next().await {
                Event::Lost(why) => break why,
                Event::Message(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(why, LinkError::Misbehaved { peer: "caller".to_owned(), what: expected });
        assert_eq!(link.send(Message::default()).await, Err(why));
        read_to_close(&mut peer).await;
        self.check_good().await;
    }
}

fn too_much(limit: &'static str, came: u64, max: u64) -> FrameError {
    FrameError::TooMuch { limit, came, max }
}

fn begin(id: u64, head_bytes: u32, tail_bytes: u64, data: &'static [u8]) -> Vec<u8> {
    Frame::Begin { id, head_bytes, tail_bytes, data: Bytes::from_static(data) }.encode()
}

fn more(id: u64, data: &'static [u8]) -> Vec<u8> {
    Frame::More { id, data: Bytes::from_static(data) }.encode()
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind() {
    scene().await.check(vec![0xff; 64], FrameError::UnknownKind { kind: 255 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_huge_frame() {
    let mut frame = Frame::Whole(Message::default()).encode();
    frame[1..4].copy_from_slice(&[0xff; 3]);
    scene().await.check(frame, too_much("frame_bytes_max", 0xff_ffff, 16_384)).await;
}

#[tokio::test(start_paused = true)]
async fn a_huge_message() {
    let expected = too_much("message_bytes_max", u64::MAX, Limits::default().message_bytes_max);
    scene().await.check(begin(1, 5, u64::MAX, b""), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_fragment_of_an_unknown_message() {
    scene().await.check(more(42, b"x"), FrameError::Fragment { id: 42, what: "is not under way" }).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_ended_is_unknown_again() {
    let bytes = [begin(1, 1, 1, b"h"), more(1, b"t"), more(1, b"t")].concat();
    scene().await.check(bytes, FrameError::Fragment { id: 1, what: "is not under way" }).await;
}

#[tokio::test(start_paused = true)]
async fn more_bytes_than_announced() {
    scene()
        .await
        .check(
            [begin(7, 1, 2, b"h"), more(7, b"ttt")].concat(),
            FrameError::Fragment { id: 7, what: "brought more bytes than it announced" },
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_begins_twice() {
    scene()
        .await
        .check(begin(7, 1, 2, b"").repeat(2), FrameError::Fragment { id: 7, what: "began while it was under way" })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_fragment() {
    let expected = FrameError::Malformed { kind: 3, what: "an empty fragment" };
    scene().await.check([begin(7, 1, 2, b""), more(7, b"")].concat(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn too_many_messages_under_way() {
    let bytes = (0..17).flat_map(|id| begin(id, 1, 1, b"")).collect();
    scene().await.check(bytes, too_much("fragmented_messages_max", 17, 16)).await;
}

#[tokio::test(start_paused = true)]
async fn too_many_bytes_announced() {
    let bytes = (0..3).flat_map(|id| begin(id, 0, 128 << 20, b"x")).collect();
    let expected = too_much("receive_bytes_max", 3 * (128 << 20), 256 << 20);
    scene().await.check(bytes, expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_ping_flood_is_survived() {
    let mut scene = scene().await;
    let mut peer = scene.memory.connect(1);
    shake_hands(&mut peer, 66).await;
    let link = scene.events.up().await;
    // The peer never reads its pongs.
    let flood = (0..10_000).flat_map(|nonce| Frame::Ping { nonce }.encode()).collect::<Vec<_>>();
    for _ in 0..20 {
        peer.write_all(&flood).await.unwrap();
    }
    peer.write_all(&Frame::Whole(Message::head(&b"done"[..])).encode()).await.unwrap();
    assert_eq!(scene.events.message().await, Incoming::Whole(Message::head(&b"done"[..])));
    assert_eq!(link.stats().queued_bytes, 0);
    scene.check_good().await;
}

#[tokio::test(start_paused = true)]
async fn a_ping_flood_is_answered_by_a_few_pongs_and_the_last() {
    let mut scene = scene().await;
    let mut peer = scene.memory.connect(1);
    shake_hands(&mut peer, 66).await;
    let link = scene.events.up().await;
    assert_eq!(read_frames(&mut peer).await, [Frame::Ping { nonce: 1 }]);
    let flood = (1..=10_000).flat_map(|nonce| Frame::Ping { nonce }.encode()).collect::<Vec<_>>();
    peer.write_all(&flood).await.unwrap();
    let mut pongs = Vec::new();
    while pongs.last() != Some(&Frame::Pong { nonce: 10_000 }) {
        pongs.extend(read_frames(&mut peer).await);
    }
    assert_eq!(pongs.first(), Some(&Frame::Pong { nonce: 1 }), "the first at once");
    // 160 KB are a few reads.
    assert!(pongs.len() <= 12, "{} pongs", pongs.len());
    assert!(link.ended().is_none());
    scene.check_good().await;
}

fn pong(nonce: u64) -> Vec<u8> {
    Frame::Pong { nonce }.encode()
}

#[tokio::test(start_paused = true)]
async fn a_pong_without_a_ping() {
    scene().await.check(pong(7), FrameError::UnexpectedPong { nonce: 7 }).await;
    // Before the first ping as well: they count from 1.
    scene().await.check(pong(0), FrameError::UnexpectedPong { nonce: 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_pong_that_comes_twice() {
    scene().await.check(pong(1).repeat(2), FrameError::UnexpectedPong { nonce: 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn pongs_out_of_turn() {
    scene().await.check([pong(1), pong(2), pong(1)].concat(), FrameError::UnexpectedPong { nonce: 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_answers_pings_but_talks_keeps_its_link() {
    let mut scene = scene().await;
    let mut peer = scene.memory.connect(1);
    shake_hands(&mut peer, 66).await;
    let link = scene.events.up().await;
    // Not at the very moment of a ping.
    for _ in 0..101 {
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        peer.write_all(&Frame::Whole(Message::head(&b"here"[..])).encode()).await.unwrap();
        scene.events.message().await;
    }
    assert_eq!(link.measured(), Measured::default());
    let last = read_frames(&mut peer).await.pop().unwrap();
    let Frame::Ping { nonce } = last else { panic!("{last:?}") };
    peer.write_all(&pong(nonce - 1)).await.unwrap();
    peer.write_all(&pong(nonce)).await.unwrap();
    assert!(measured_beyond(&link, Measured::default()).await.round_trip_us.is_some());
    scene.check_good().await;
}

#[tokio::test(start_paused = true)]
async fn dying_in_the_middle_of_a_message_is_said() {
    let mut scene = scene().await;
    let mut peer = scene.memory.connect(1);
    shake_hands(&mut peer, 66).await;
    scene.events.up().await;
    peer.write_all(&begin(1, 0, 1000, b"some")).await.unwrap();
    drop(peer);
    let Incoming::Head { .. } = scene.events.message().await else { panic!("the empty head is complete") };
    let why = scene.events.lost().await;
    assert_eq!(why, LinkError::PeerClosed { peer: "caller".to_owned(), mid_message: true });
    scene.check_good().await;
}

/// What a caller gets for its first bytes.
async fn refused(bytes: &[u8], then_close: bool) -> (LinkError, Vec<u8>) {
    let mut scene = scene().await;
    let mut peer = scene.memory.connect(1);
    peer.write_all(bytes).await.unwrap();
    if then_close {
        peer.shutdown().await.unwrap();
    }
    let why = scene.events.refused().await;
    let answer = read_to_close(&mut peer).await;
    scene.check_good().await;
    (why, answer)
}

fn misbehaved(what: FrameError) -> LinkError {
    LinkError::Misbehaved { peer: "caller".to_owned(), what }
}

fn hello() -> Vec<u8> {
    encode_hello(&Hello { identity: identity(66, Some("mars")), limits: Limits::default(), taken: false }).to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_no_node() {
    let (why, answer) = refused(b"GET / HTTP/1.1\r\n\r\n", false).await;
    assert_eq!(why, misbehaved(FrameError::Magic { got: *b"GET / " }));
    assert!(answer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_version_is_named_on_both_sides() {
    let mut bytes = hello();
    bytes[6..8].copy_from_slice(&9_u16.to_le_bytes());
    let (why, answer) = refused(&bytes, false).await;
    assert_eq!(why, misbehaved(FrameError::Version { ours: VERSION, theirs: 9 }));
    assert!(why.to_string().contains("version 9") && why.to_string().contains(&format!("version {VERSION}")), "{why}");
    assert_eq!(answer, [b"catena".as_slice(), &VERSION.to_le_bytes()].concat(), "so that the caller can name it too");
}

#[tokio::test(start_paused = true)]
async fn a_dialler_names_both_versions_too() {
    let memory = Memory::new(1 << 16);
    let mut callers = memory.raw_listener(5);
    let (client, mut events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(5)).await.unwrap();
    let mut stream = callers.recv().await.unwrap();
    stream.write_all(b"catena\x09\x00").await.unwrap();
    let expected =
        LinkError::Misbehaved { peer: memory.place(5).address, what: FrameError::Version { ours: VERSION, theirs: 9 } };
    assert_eq!(events.lost().await, expected);
    assert_eq!(link.introduced().await.unwrap_err(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_is_too_long() {
    let mut bytes = hello();
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let expected = too_much("hello_bytes_max", u32::MAX.into(), 65 << 10);
    assert_eq!(refused(&bytes, false).await.0, misbehaved(expected));
}

#[tokio::test(start_paused = true)]
async fn a_hello_whose_fields_do_not_fit() {
    let mut bytes = hello();
    bytes[8..12].copy_from_slice(&5_u32.to_le_bytes());
    let expected = FrameError::Hello { what: "shorter than its fields" };
    assert_eq!(refused(&bytes, false).await.0, misbehaved(expected));
}

#[tokio::test(start_paused = true)]
async fn a_truncated_hello() {
    let bytes = hello();
    let (why, _) = refused(&bytes[..bytes.len() - 1], true).await;
    assert_eq!(why, LinkError::PeerClosed { peer: "caller".to_owned(), mid_message: true });
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_says_nothing_is_dropped_in_time() {
    let (why, _) = refused(b"", false).await;
    assert_eq!(why, LinkError::NoHello { peer: "caller".to_owned(), hello_timeout_ms: 10_000 });
    let (why, _) = refused(&hello()[..20], false).await;
    assert_eq!(why, LinkError::NoHello { peer: "caller".to_owned(), hello_timeout_ms: 10_000 });
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_says_nothing_is_given_up() {
    let memory = Memory::new(1 << 16);
    let mut callers = memory.raw_listener(5);
    let (client, mut events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(5)).await.unwrap();
    let _stream = callers.recv().await.unwrap();
    link.send(Message::head(&b"early"[..])).await.unwrap();
    let large = link.send(Message::head(vec![0; 2 << 20]));
    assert!(matches!(large.await, Err(LinkError::NoHello { .. })), "a large message waits for the peer's limits");
    assert!(matches!(events.lost().await, LinkError::NoHello { .. }));
    assert!(client.links().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_loses_its_link_and_nothing_hangs() {
    struct Clumsy;
    impl catena_net::Handler for Clumsy {
        fn on_link(&self, _: &std::sync::Arc<catena_net::Link>) {}
        fn on_message(&self, _: &std::sync::Arc<catena_net::Link>, _: Incoming) {
            panic!("on purpose");
        }
        fn on_link_lost(&self, _: &std::sync::Arc<catena_net::Link>, _: &LinkError) {}
    }
    let memory = Memory::new(1 << 16);
    let server = Endpoint::bind(memory.config(Some(1)))
        .await
        .unwrap()
        .start(identity(1, None), std::sync::Arc::new(Clumsy))
        .unwrap();
    let (client, mut events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(1)).await.unwrap();
    events.up().await;
    link.send(Message::head(&b"boo"[..])).await.unwrap();
    assert!(matches!(events.lost().await, LinkError::PeerClosed { .. }));
    assert!(server.links().is_empty());
    client.link(&memory.place(1)).await.unwrap().introduced().await.unwrap();
    server.close(std::time::Duration::from_secs(1)).await;
}
