//! What one peer may take of a node, and that the others do not notice. In memory, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Clock};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use catena_net::transport::{Connection, Listener, Transport};
use catena_net::{
    Endpoint, EndpointConfig, Frame, Handler, Hello, Incoming, Limits, Link, LinkError, MemoryBudget, Message,
    NetError, encode_hello,
};
use support::{Event, Events, Memory, bind, identity, shake_hands};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

const MIB: usize = 1 << 20;
/// What each link is charged as soon as it is there.
const STANDING_BYTES: u64 = 128 << 10;

fn begin(tail_bytes: u64) -> Vec<u8> {
    Frame::Begin { id: 1, head_bytes: 0, tail_bytes, data: Bytes::new() }.encode()
}

fn more(bytes: usize) -> Vec<u8> {
    let frame = |data: &[u8]| Frame::More { id: 1, data: Bytes::copy_from_slice(data) }.encode();
    vec![7; bytes].chunks(16 << 10).flat_map(frame).collect()
}

fn small(bytes: usize) -> Vec<u8> {
    Frame::Whole(Message::head(vec![1; bytes])).encode()
}

/// A correct peer without a node behind it.
async fn raw_peer(memory: &Memory, events: &mut Events, node: u64) -> (DuplexStream, Arc<Link>) {
    let mut peer = memory.connect(1);
    shake_hands(&mut peer, node).await;
    loop {
        match events.next().await {
            Event::Up(link) => return (peer, link),
            Event::Message(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The next link that is lost, whatever else comes before.
async fn next_lost(events: &mut Events) -> LinkError {
    loop {
        if let Event::Lost(why) = events.next().await {
            return why;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn halves_of_messages_are_bounded_for_an_address_and_who_waits_too_long_is_closed() {
    let memory = Memory::new(MIB);
    let config = EndpointConfig { address_bytes_max: 8 << 20, ..memory.config(Some(1)) };
    let budget = config.memory.clone();
    let (_server, mut events) = bind(config, identity(1, None)).await;
    let mut peers = Vec::new();
    for node in 60..72 {
        peers.push(raw_peer(&memory, &mut events, node).await.0);
    }
    for mut peer in peers {
        tokio::spawn(async move {
            peer.write_all(&begin(100 << 20)).await.unwrap();
            // Until it is closed.
            while peer.write_all(&more(16 << 10)).await.is_ok() {}
        });
    }
    let closed = next_lost(&mut events).await;
    assert!(matches!(&closed, LinkError::NoMemory { why, .. } if why.bytes_max == 8 << 20), "{closed}");
    assert!(budget.used() <= 8 << 20, "{}", budget.used());
    for _ in 1..12 {
        assert!(matches!(next_lost(&mut events).await, LinkError::NoMemory { .. }));
    }
    assert_eq!(budget.used(), 0, "all is given back");
}

#[tokio::test(start_paused = true)]
async fn what_a_message_becomes_is_charged_before_it_is_told() {
    struct Swelling(Mutex<u64>);
    impl Handler for Swelling {
        fn on_link(&self, _: &Arc<Link>) {}
        fn on_message(&self, _: &Arc<Link>, incoming: Incoming) {
            *self.0.lock().unwrap() += u64::from(matches!(incoming, Incoming::Whole(_)));
        }
        fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
        fn decoded_bytes_max(&self, head: &[u8]) -> u64 {
            head.len() as u64 * 30
        }
    }
    let memory = Memory::new(MIB);
    let told = Arc::new(Swelling(Mutex::new(0)));
    let config = EndpointConfig { address_bytes_max: 8 << 20, ..memory.config(Some(1)) };
    let _server = Endpoint::bind(config).await.unwrap().start(identity(1, None), Arc::clone(&told) as _).unwrap();
    let (client, mut events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(1)).await.unwrap();
    link.send(Message::head(vec![1; 200_000])).await.unwrap();
    link.send(Message::head(vec![1; 300_000])).await.unwrap();
    events.up().await;
    assert!(matches!(events.lost().await, LinkError::PeerClosed { .. } | LinkError::Io { .. }));
    assert_eq!(*told.0.lock().unwrap(), 1, "30 times 200,000 bytes fit, 30 times 300,000 do not");
}

/// Messages that are here do not wait for each other's bytes. Until its turn comes, each is charged as it came.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_here_is_told_however_little_room_there_is() {
    struct Swelling(MemoryBudget, Mutex<Vec<u64>>);
    impl Handler for Swelling {
        fn on_link(&self, _: &Arc<Link>) {}
        fn on_message(&self, _: &Arc<Link>, _: Incoming) {
            self.1.lock().unwrap().push(self.0.used());
        }
        fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
        fn decoded_bytes_max(&self, head: &[u8]) -> u64 {
            head.len() as u64 * 3
        }
    }
    let memory = Memory::new(MIB);
    let config = memory.config(Some(1));
    let budget = config.memory.clone();
    let told = Arc::new(Swelling(budget.clone(), Mutex::default()));
    let _server = Endpoint::bind(config).await.unwrap().start(identity(1, None), Arc::clone(&told) as _).unwrap();
    let (client, mut events) = bind(memory.config(None), identity(2, None)).await;
    let link = client.link(&memory.place(1)).await.unwrap();
    events.up().await;
    let others = budget.lease(budget.left() - (5 << 19)).unwrap();
    for count in 1..=2 {
        link.send(Message::head(vec![1; 2 * MIB])).await.unwrap();
        let is_told = async {
            while told.1.lock().unwrap().len() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), is_told).await.expect("it is told");
    }
    let used = told.1.lock().unwrap().clone();
    let charged = others.bytes() + STANDING_BYTES + (2 << 20);
    assert!(used.iter().all(|used| (charged..budget.bytes_max()).contains(used)), "{used:?}");
    drop(others);
    assert_eq!(budget.used(), STANDING_BYTES, "all is given back");
}

#[tokio::test(start_paused = true)]
async fn one_byte_a_second_in_mid_message_is_too_slow() {
    let memory = Memory::new(MIB);
    let (_server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    for (bytes_per_s, is_enough) in [(1, false), (4_000, false), (5_000, true)] {
        let (mut peer, link) = raw_peer(&memory, &mut events, 66).await;
        peer.write_all(&begin(100 << 20)).await.unwrap();
        let start = Instant::now();
        while link.ended().is_none() && start.elapsed() < Duration::from_secs(600) {
            sleep(Duration::from_secs(1)).await;
            // A link that was closed takes no more.
            let _ = peer.write_all(&[more(bytes_per_s), small(10)].concat()).await;
        }
        if is_enough {
            assert_eq!(link.ended(), None);
            drop(peer);
        }
        let why = next_lost(&mut events).await;
        assert_eq!(matches!(why, LinkError::Stalled { bytes_per_s_min: 4_096, .. }), !is_enough, "{why}");
        if !is_enough {
            assert!(start.elapsed() <= Duration::from_secs(30), "{:?}", start.elapsed());
        }
    }
}

/// Answers everything with 64 KiB.
#[derive(Default)]
struct Generous {
    answered: AtomicU64,
    queued_max: AtomicU64,
    lost: Mutex<Option<LinkError>>,
}

impl Handler for Generous {
    fn on_link(&self, _: &Arc<Link>) {}
    fn on_message(&self, peer: &Arc<Link>, _: Incoming) {
        if peer.post(Message::head(vec![0; 64 << 10])).is_ok() {
            self.answered.fetch_add(1, SeqCst);
        }
        self.queued_max.fetch_max(peer.stats().queued_bytes, SeqCst);
    }
    fn on_link_lost(&self, _: &Arc<Link>, why: &LinkError) {
        *self.lost.lock().unwrap() = Some(why.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_its_answers_is_read_slowly_and_then_closed() {
    let memory = Memory::new(64 << 10);
    let config =
        EndpointConfig { medium_queue_bytes_max: 2 << 20, overflow_bytes_max: 1 << 20, ..memory.config(Some(1)) };
    let (budget, handler) = (config.memory.clone(), Arc::new(Generous::default()));
    let _server = Endpoint::bind(config).await.unwrap().start(identity(1, None), Arc::clone(&handler) as _).unwrap();
    let mut peer = memory.connect(1);
    shake_hands(&mut peer, 66).await;
    let start = Instant::now();
    // The other half stays open, unread.
    let (_unread, mut writer) = tokio::io::split(peer);
    let asking = tokio::spawn(async move { while writer.write_all(&small(10)).await.is_ok() {} });
    sleep(Duration::from_secs(1)).await;
    let after_a_second = handler.queued_max.load(SeqCst);
    assert!((3 << 20..12 << 20).contains(&after_a_second), "{after_a_second}: one answer every 10 ms from 3 MiB on");
    assert!(budget.used() <= after_a_second + MIB as u64);
    timeout(Duration::from_secs(60), asking).await.expect("the link must be closed").unwrap();
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    tokio::task::yield_now().await;
    let why = handler.lost.lock().unwrap().clone().unwrap();
    assert!(matches!(why, LinkError::Stalled { .. }), "{why}");
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_both_have_too_much_to_say_do_not_wait_for_each_other() {
    const MESSAGES: usize = 200;
    let memory = Memory::new(64 << 10);
    let config =
        |port| EndpointConfig { medium_queue_bytes_max: 2 << 20, overflow_bytes_max: 1 << 20, ..memory.config(port) };
    let (_server, mut at_server) = bind(config(Some(1)), identity(1, None)).await;
    let (client, mut at_client) = bind(config(None), identity(2, None)).await;
    let out = client.link(&memory.place(1)).await.unwrap();
    let back = at_server.up().await;
    at_client.up().await;
    for link in [&out, &back] {
        (0..MESSAGES).for_each(|_| link.post(Message::head(vec![0; 64 << 10])).unwrap());
    }
    let start = Instant::now();
    for events in [&mut at_server, &mut at_client] {
        for _ in 0..MESSAGES {
            assert!(matches!(events.message().await, Incoming::Whole(_)));
        }
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_there_is_no_memory_for_is_refused_and_the_link_lives_on() {
    let memory = Memory::new(64 << 10);
    let config = EndpointConfig { address_bytes_max: 4 << 20, ..memory.config(Some(1)) };
    let budget = config.memory.clone();
    let (_server, mut events) = bind(config, identity(1, None)).await;
    let (mut peer, link) = raw_peer(&memory, &mut events, 66).await;
    let mut posted = 0;
    let why = loop {
        match link.post(Message::head(vec![0; 100_000])) {
            Ok(()) => posted += 1,
            Err(why) => break why,
        }
    };
    assert!(matches!(why, LinkError::NoMemory { .. }), "{why}");
    assert!((35..=42).contains(&posted), "{posted}");
    assert!(budget.used() <= 4 << 20);
    let reading = tokio::spawn(async move {
        let mut bytes = vec![0; MIB];
        while peer.read(&mut bytes).await.unwrap() > 0 {}
    });
    while link.stats().queued_bytes > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(budget.used(), STANDING_BYTES);
    link.post(Message::head(vec![0; 100_000])).unwrap();
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn one_address_does_not_take_all_links_and_own_dials_have_room() {
    let memory = Memory::new(1 << 16);
    let mut listener = memory.raw_listener(7);
    for (limit, per_address, accepted) in [("links_per_address_max", 2, 3), ("links_accepted_max", 3, 2)] {
        let config = EndpointConfig {
            links_max: 3,
            links_accepted_max: accepted,
            links_per_address_max: per_address,
            ..memory.config(Some(1))
        };
        let (server, mut events) = bind(config, identity(1, None)).await;
        let (first, _) = raw_peer(&memory, &mut events, 60).await;
        let _idle = raw_peer(&memory, &mut events, 61).await;
        let _third = memory.connect(1);
        let why = events.refused().await;
        assert_eq!(why, LinkError::TooManyLinks { peer: "caller".to_owned(), limit, links_max: 2 });
        server.link(&memory.place(7)).await.unwrap();
        let _dialled = listener.recv().await.unwrap();
        assert!(matches!(server.link(&memory.place(8)).await, Err(NetError::TooManyLinks { links_max: 3, .. })));
        // Who has gone makes room.
        drop(first);
        next_lost(&mut events).await;
        raw_peer(&memory, &mut events, 62).await;
        server.close(Duration::ZERO).await;
    }
}

/// Says hello as this node, and reads the answer.
async fn claim(memory: &Memory, node: u64) -> (DuplexStream, Hello) {
    let mut stream = memory.connect(1);
    let hello = Hello { identity: identity(node, None), limits: Limits::default(), taken: false };
    stream.write_all(&encode_hello(&hello)).await.unwrap();
    let answer = read_hello(&mut stream).await;
    (stream, answer)
}

async fn read_hello(stream: &mut DuplexStream) -> Hello {
    let mut bytes = BytesMut::new();
    loop {
        if let Some(hello) = catena_net::decode_hello(&mut bytes, 1 << 16).unwrap() {
            return hello;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed before its hello");
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_linked_stays_with_its_link() {
    let memory = Memory::new(1 << 16);
    let (server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let (client, mut at_client) = bind(memory.config(None), identity(2, None)).await;
    client.link(&memory.place(1)).await.unwrap();
    let first = events.up().await;
    let (mut thief, hello) = claim(&memory, 2).await;
    assert!(hello.taken);
    thief.write_all(&small(10)).await.unwrap();
    at_client.up().await;
    for _ in 0..100 {
        let link = server.link_to_node(2).expect("the first is alive");
        assert_eq!(link.id(), first.id());
        link.post(Message::head(&b"for the true one"[..])).unwrap();
        assert!(matches!(at_client.message().await, Incoming::Whole(_)));
        sleep(Duration::from_millis(100)).await;
    }
    let why = events.refused().await;
    assert_eq!(why, LinkError::Taken { peer: "caller".to_owned(), node: 2 });
    assert!(events.is_empty(), "nothing that the thief said was heard");
    let mut mirror = memory.connect(1);
    let hello = Hello { identity: identity(1, None), limits: Limits::default(), taken: false };
    mirror.write_all(&encode_hello(&hello)).await.unwrap();
    assert_eq!(events.refused().await, LinkError::Taken { peer: "caller".to_owned(), node: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_old_link_is_half_dead_gets_in_soon() {
    let memory = Memory::new(1 << 16);
    let (server, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let (_half_dead, old) = raw_peer(&memory, &mut events, 66).await;
    let start = Instant::now();
    let (mut stream, hello) = claim(&memory, 66).await;
    assert!(hello.taken);
    stream.write_all(&small(10)).await.unwrap();
    assert!(!read_hello(&mut stream).await.taken, "now it is welcome");
    assert!(start.elapsed() <= Duration::from_millis(3_100), "{:?}", start.elapsed());
    assert!(matches!(events.lost().await, LinkError::Silent { silent_ms: 3_000, .. }));
    let new = events.up().await;
    assert!(matches!(events.message().await, Incoming::Whole(_)), "what it said at once is heard now");
    assert_ne!(server.link_to_node(66).unwrap().id(), old.id());
    assert_eq!(server.link_to_node(66).unwrap().id(), new.id());
}

/// Two names of one node are dialled at once, and the second link is refused before the first is welcome.
#[tokio::test(start_paused = true)]
async fn of_two_places_that_are_one_node_both_are_reached_by_the_first_link() {
    let memory = Memory::new(1 << 16);
    let (mut by_name, mut by_number) = (memory.raw_listener(8), memory.raw_listener(9));
    let (endpoint, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let first = endpoint.link(&memory.place(8)).await.unwrap();
    let mut welcome = by_name.recv().await.unwrap();
    let place = memory.place(9);
    let second = endpoint.link_introduced(&place);
    let answered = async {
        let mut refused = by_number.recv().await.unwrap();
        let hello = Hello { identity: identity(5, None), limits: Limits::default(), taken: true };
        refused.write_all(&encode_hello(&hello)).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        shake_hands(&mut welcome, 5).await;
        assert_eq!(events.up().await.id(), first.id());
        (refused, welcome)
    };
    let start = Instant::now();
    let (second, _streams) = tokio::join!(second, answered);
    assert_eq!(second.unwrap().id(), first.id());
    assert!(
        start.elapsed() < Duration::from_millis(100),
        "without waiting for the peer to notice: {:?}",
        start.elapsed()
    );
}

/// Both dialled, and the link that was to stay breaks before the other side has ended its own.
#[tokio::test(start_paused = true)]
async fn of_two_links_that_crossed_the_one_that_lasts_is_used() {
    let memory = Memory::new(1 << 16);
    let mut listener = memory.raw_listener(9);
    let (low, mut events) = bind(memory.config(Some(1)), identity(1, None)).await;
    let dialled = low.link(&memory.place(9)).await.unwrap();
    let mut to_high = listener.recv().await.unwrap();
    let (_from_high, hello) = claim(&memory, 9).await;
    assert!(!hello.taken);
    let accepted = events.up().await;
    shake_hands(&mut to_high, 9).await;
    assert_eq!(events.up().await.id(), dialled.id());
    assert_eq!(low.link_to_node(9).unwrap().id(), dialled.id(), "the lower number's stays");
    drop(to_high);
    events.lost().await;
    assert_eq!(low.link_to_node(9).map(|link| link.id()), Some(accepted.id()));
}

/// Dials as soon as the test lets it.
struct Slow {
    memory: Memory,
    begun: Notify,
    go_on: Notify,
}

#[async_trait]
impl Transport for Slow {
    async fn dial(&self, address: &str) -> io::Result<Connection> {
        self.begun.notify_one();
        self.go_on.notified().await;
        let connection = self.memory.dial(address).await?;
        // Both links are to one address.
        Ok(Connection { peer: "caller".to_owned(), ..connection })
    }
    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.memory.listen(address).await
    }
}

/// The peer greets while this side's connection takes its time: both dialled, and neither link is dead.
#[tokio::test(start_paused = true)]
async fn a_link_that_is_accepted_during_a_slow_dial_is_not_taken_for_dead() {
    let memory = Memory::new(1 << 16);
    let mut listener = memory.raw_listener(9);
    let slow = Arc::new(Slow { memory: memory.clone(), begun: Notify::new(), go_on: Notify::new() });
    let config = EndpointConfig { transport: slow.clone(), ..memory.config(Some(1)) };
    let (low, mut events) = bind(config, identity(1, None)).await;
    let place = memory.place(9);
    let (dialled, accepted) = tokio::join!(low.link(&place), async {
        slow.begun.notified().await;
        let (from_high, _) = claim(&memory, 9).await;
        let accepted = events.up().await;
        slow.go_on.notify_one();
        (from_high, accepted)
    });
    let (dialled, (_from_high, accepted)) = (dialled.unwrap(), accepted);
    let mut to_high = listener.recv().await.unwrap();
    shake_hands(&mut to_high, 9).await;
    assert_eq!(events.up().await.id(), dialled.id());
    assert_eq!(accepted.ended(), None);
    assert_eq!(low.link_to_node(9).unwrap().id(), dialled.id(), "the lower number's stays");
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_dial_each_other_at_once_keep_one_link() {
    for (low, high) in [(1, 2), (2, 1)] {
        let memory = Memory::new(1 << 16);
        let (a, mut at_a) = bind(memory.config(Some(1)), identity(low, None)).await;
        let (b, mut at_b) = bind(memory.config(Some(2)), identity(high, None)).await;
        let (to_b, to_a) = (memory.place(2), memory.place(1));
        let (from_a, from_b) = tokio::join!(a.link_introduced(&to_b), b.link_introduced(&to_a));
        from_a.unwrap();
        from_b.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!((a.links().len(), b.links().len()), (1, 1));
        a.link_to_node(high).unwrap().send(Message::head(&b"to b"[..])).await.unwrap();
        b.link_to_node(low).unwrap().send(Message::head(&b"to a"[..])).await.unwrap();
        for events in [&mut at_a, &mut at_b] {
            while !matches!(events.next().await, Event::Message(Incoming::Whole(_))) {}
        }
        // By another name of the same place, too.
        let again = a.link_introduced(&to_b.in_site("somewhere")).await.unwrap();
        assert_eq!(again.id(), a.link_to_node(high).unwrap().id());
        sleep(Duration::from_secs(60)).await;
        assert_eq!((a.links().len(), b.links().len()), (1, 1));
    }
}

/// Counts messages, each of which it deals with for so long.
#[derive(Default)]
struct Count(AtomicUsize, Duration);

impl Handler for Count {
    fn on_link(&self, _: &Arc<Link>) {}
    fn on_message(&self, _: &Arc<Link>, _: Incoming) {
        let began = Clock::now();
        while began.elapsed() < self.1 {}
        self.0.fetch_add(1, SeqCst);
    }
    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

#[tokio::test(start_paused = true)]
async fn many_small_frames_in_one_read_let_others_have_their_turn() {
    // As many as a turn may have, and those of which each takes as long as a turn may.
    for (number, (frames, busy, in_one_turn)) in
        [(3_000, Duration::ZERO, 64), (40, Duration::from_millis(1), 1)].into_iter().enumerate()
    {
        let memory = Memory::new(MIB);
        let count = Arc::new(Count(AtomicUsize::default(), busy));
        let _server = Endpoint::bind(memory.config(Some(1)))
            .await
            .unwrap()
            .start(identity(1, None), Arc::clone(&count) as _)
            .unwrap();
        let mut peer = memory.connect(1);
        shake_hands(&mut peer, 66 + number as u64).await;
        peer.write_all(&small(0).repeat(frames)).await.unwrap();
        let (mut seen, mut most) = (0, 0);
        while seen < frames {
            tokio::task::yield_now().await;
            let now = count.0.load(SeqCst);
            most = most.max(now - seen);
            seen = now;
        }
        assert!(most <= in_one_turn, "{most} messages without a pause, each of {busy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_stopped_does_not_hear_what_is_too_old() {
    let memory = Memory::new(1 << 16);
    let config = memory.config(Some(1));
    let silence_max = Duration::from_millis(config.silence_ms_max());
    assert_eq!(silence_max, Duration::from_secs(20));
    let (_server, mut events) = bind(config, identity(1, None)).await;
    let (mut peer, _) = raw_peer(&memory, &mut events, 66).await;
    // In the socket, while nothing here runs.
    peer.write_all(&small(10)).await.unwrap();
    tokio::time::advance(silence_max + Duration::from_millis(1)).await;
    let why = events.lost().await;
    assert!(matches!(why, LinkError::Slept { .. }), "{why}");
    // A shorter stop does no harm.
    let (mut peer, _) = raw_peer(&memory, &mut events, 67).await;
    peer.write_all(&small(10)).await.unwrap();
    tokio::time::advance(silence_max - Duration::from_millis(1)).await;
    assert!(matches!(events.message().await, Incoming::Whole(_)));
}
