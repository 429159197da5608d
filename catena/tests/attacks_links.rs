//! What a peer does to a node over its links, while a client of another address runs chains there. The node is a process of its own, so that
//! what it takes can be seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[allow(dead_code, reason = "these tests need less of it")]
#[path = "processes/attacker.rs"]
mod attacker;
#[path = "common/bound.rs"]
mod bound;
#[path = "processes/latency.rs"]
mod latency;
#[path = "../examples/node/main.rs"]
mod node;
#[allow(dead_code, reason = "these tests need less of it")]
#[path = "processes/nodes.rs"]
mod nodes;
#[allow(dead_code, reason = "these tests need less of it")]
#[path = "processes/process.rs"]
mod process;

use std::{net::SocketAddr, time::Duration};

use attacker::{captured, end_of, of_chain};
use bytes::{Bytes, BytesMut};
use catena::{Client, NodeId, NodeRef};
use catena_net::{Frame, Hello, Identity, Limits, Message as Parts, decode_hello, encode_hello};
use catena_wire::{
    At, Branch, Budget, Buffer, CONSOLE_LINES_MAX, ChainId, Encoded, End, Hop, Kinds, LISTING_ENTRIES_MAX, Lent,
    LogLine, Message, SegmentMessage, SegmentRefusal, ServiceEntry, StepKey, StepTrace, TRACE_STEPS_MAX, Value,
};
use futures_util::future::join_all;
use latency::Quiet;
use nodes::{Nodes, run};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

const MIB: u64 = 1 << 20;
/// The node's budget.
const MEMORY_BYTES: u64 = 256 * MIB;
/// What it has beside: its program, compiled modules, and what the allocator keeps.
const BESIDE_BYTES: u64 = 128 * MIB;
const LOOK: &str = r#"import { call } from "catena";
    export default async (text) => [await call("a/where", null), await call("a/echo", text)];"#;

/// The process that the tests start. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    if let Some(arguments) = process::arguments() {
        node::serve(arguments.into_iter()).await.unwrap();
    }
}

struct Scene {
    nodes: Nodes,
    client: Client,
    address: SocketAddr,
}

impl Scene {
    async fn start() -> Self {
        let (nodes, client) = Nodes::patient_with(&[("a", &["--memory", &MEMORY_BYTES.to_string()])]).await;
        let address = nodes.place("a").address.parse().unwrap();
        let scene = Self { nodes, client, address };
        scene.check().await;
        scene
    }

    /// A good chain gets its answer, and the node has held no more than it may.
    async fn check(&self) {
        let ended = run(&self.client, LOOK, json!("hello")).await;
        assert_eq!(ended.value(), &json!(["a", "hello"]));
        let bytes = process::resident_bytes_max(self.nodes.id("a"));
        assert!(bytes <= MEMORY_BYTES + BESIDE_BYTES, "{} MiB", bytes / MIB);
    }

    /// How long a good chain takes without an attack.
    async fn quiet(&self) -> Quiet {
        Quiet::of(self.nodes.id("a"), async || self.check().await).await
    }

    /// Good chains one after the other, as long as these attackers go on. Returns what each came to.
    async fn check_beside<T, F>(&self, attack: &str, attackers: impl IntoIterator<Item = F>) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let quiet = self.quiet().await;
        quiet.beside(attack, join_all(attackers), async || self.check().await).await
    }

    /// Nothing is left of an attack: a client of the attacker's address can do what it could before.
    async fn check_after(self, attacker: &str) {
        self.check().await;
        let mut peer = Peer::dial(attacker, self.address, 4_711).await.expect("there is room again");
        let echoed = "x".repeat(4 << 20);
        peer.say(echo(1, &echoed)).await.unwrap();
        let back = peer.message().await;
        assert!(matches!(back, Message::Return(1, ..)), "{back:?}");
        self.check().await;
    }
}

/// One who knows the protocol and has no node.
struct Peer {
    stream: TcpStream,
    bytes: BytesMut,
    next_id: u64,
}

impl Peer {
    /// Links with a node from this address of the loopback network; `None`: it was turned away.
    async fn dial(from: &str, to: SocketAddr, number: u64) -> Option<Self> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(to).await.unwrap();
        let node = NodeRef { id: NodeId(number), name: format!("peer {number}"), address: None, site: None };
        let hello = catena_wire::Hello { node, services: Vec::new(), repository: false }.encode();
        let identity = Identity { node: number, site: None, hello: hello.into() };
        let hello = Hello { identity, limits: Limits::default(), taken: false };
        stream.write_all(&encode_hello(&hello)).await.ok()?;
        let mut bytes = BytesMut::new();
        while decode_hello(&mut bytes, 1 << 20).unwrap().is_none() {
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
        Some(Self { stream, bytes, next_id: 1 })
    }

    /// Begins a message of so many bytes, and sends so many of them.
    async fn say_half(&mut self, announced: u64, sent: usize) -> std::io::Result<()> {
        let begin = Frame::Begin { id: self.next_id, head_bytes: 0, tail_bytes: announced, data: Bytes::new() };
        self.stream.write_all(&begin.encode()).await?;
        let more = Frame::More { id: self.next_id, data: vec![1; 16 << 10].into() }.encode();
        self.next_id += 1;
        for _ in 0..sent >> 14 {
            self.stream.write_all(&more).await?;
        }
        Ok(())
    }

    async fn say(&mut self, message: Message) -> std::io::Result<()> {
        let head = message.encode().head;
        if head.len() <= 16 << 10 {
            return self.stream.write_all(&Frame::Whole(Parts::head(head)).encode()).await;
        }
        self.say_head(&head, 0).await
    }

    /// Says a head, and announces so much of a tail.
    async fn say_head(&mut self, head: &[u8], tail_bytes: u64) -> std::io::Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let begin = Frame::Begin { id, head_bytes: head.len() as u32, tail_bytes, data: Bytes::new() };
        self.stream.write_all(&begin.encode()).await?;
        for data in head.chunks(16 << 10) {
            let more = Frame::More { id, data: Bytes::copy_from_slice(data) };
            self.stream.write_all(&more.encode()).await?;
        }
        Ok(())
    }

    /// Says something that has a tail, in one frame.
    async fn say_with_tail(&mut self, message: Message) -> std::io::Result<()> {
        self.stream.write_all(&whole(message)).await
    }

    /// The next message, from as many frames as it has.
    async fn message(&mut self) -> Message {
        let mut whole = Vec::new();
        let mut missing = None;
        loop {
            while let Some(frame) = Frame::decode(&mut self.bytes, &Limits::default()).unwrap() {
                match frame {
                    Frame::Whole(parts) => return Message::decode_head(&parts.head).unwrap(),
                    Frame::Begin { head_bytes, data, .. } => {
                        missing = Some(head_bytes as usize);
                        whole.extend_from_slice(&data);
                    }
                    Frame::More { data, .. } => whole.extend_from_slice(&data),
                    Frame::Ping { nonce } => self.stream.write_all(&Frame::Pong { nonce }.encode()).await.unwrap(),
                    Frame::Pong { .. } => {}
                }
                if missing == Some(whole.len()) {
                    return Message::decode_head(&whole).unwrap();
                }
            }
            assert_ne!(self.stream.read_buf(&mut self.bytes).await.unwrap(), 0, "closed");
        }
    }
}

/// A message in one frame.
fn whole(message: Message) -> Vec<u8> {
    let Encoded { head, tail } = message.encode();
    Frame::Whole(Parts::new(head, tail)).encode()
}

fn echo(id: u64, text: &str) -> Message {
    let params: Value = catena::to_value(&text).unwrap();
    let budget = Budget::new(60_000_000, 10);
    let (service, function) = ("a".to_owned(), "echo".to_owned());
    Message::Call { id, service, function, params, budget, key: None, credentials: None, duplicate: None, age_us: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn halves_of_messages_on_twelve_links() {
    let scene = Scene::start().await;
    let address = scene.address;
    let attacker = move |number: u64| async move {
        let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
        // It waits when the node reads no more of it, and is closed after that.
        while peer.say_half(30 << 20, 29 << 20).await.is_ok() {}
        Some(())
    };
    scene.check_beside("halves of messages", (0..12).map(attacker)).await;
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_asked_for_and_never_read() {
    let scene = Scene::start().await;
    let address = scene.address;
    let attacker = move |number: u64| async move {
        let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
        let large = "x".repeat(1 << 20);
        for id in 0_u64.. {
            let question = if number.is_multiple_of(2) { Message::List(id) } else { echo(id, &large) };
            if peer.say(question).await.is_err() {
                break;
            }
        }
        Some(())
    };
    scene.check_beside("answers that are never read", (0..4).map(attacker)).await;
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_nobody_asked_for_and_pushes_of_what_is_not_there() {
    let scene = Scene::start().await;
    let address = scene.address;
    let attacker = move |number: u64| async move {
        let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
        let data = Bytes::from(vec![7; 8 << 10]);
        let victim = NodeRef { id: NodeId(4_712), name: "v".into(), address: Some("127.0.0.2:9".into()), site: None };
        for offset in 0_u64..20_000 {
            let at = At { number: 1, generation: number, offset, grant: Some(offset) };
            let pushed = Message::Segment(SegmentMessage::Pushed(at, data.clone()));
            let push = SegmentMessage::Push { at, bytes: u64::MAX - offset, to: victim.clone() };
            if peer.say_with_tail(pushed).await.is_err() || peer.say(Message::Segment(push)).await.is_err() {
                break;
            }
        }
        Some(())
    };
    scene.check_beside("bytes that nobody asked for", [attacker(0)]).await;
    scene.check_after("127.0.0.2").await;
}

/// As long as they may be, and longer, of the smallest items: read, each takes many times its bytes.
fn long_lists() -> Vec<Bytes> {
    const LARGE_BYTES: usize = 30 << 20;
    let node = || NodeRef { id: NodeId(4_712), name: String::new(), address: None, site: None };
    let entry =
        ServiceEntry { service: "s".into(), functions: Vec::new(), node: node(), kinds: Kinds::default(), proxy: None };
    let (node, text, branch) = (String::new(), String::new(), Branch::default());
    let key = StepKey { chain: ChainId { origin: NodeId(4_712), number: 1 }, branch: branch.clone(), step: 1 };
    let line = LogLine { step: 1, node, at_us: 0, text, branch, number: 0 };
    let listing = |entries| Message::Listing(1, vec![entry.clone(); entries]);
    let console = |lines| Message::Console(key.clone(), 0, vec![line.clone(); lines]);
    let traces =
        |steps| Message::End(Box::new(End { trace: Some(vec![StepTrace::default(); steps]), ..end_of(key.clone()) }));
    let kinds: [(usize, &dyn Fn(usize) -> Message); 3] =
        [(LISTING_ENTRIES_MAX, &listing), (CONSOLE_LINES_MAX, &console), (TRACE_STEPS_MAX, &traces)];
    let of = |make: &dyn Fn(usize) -> Message, count| make(count).encode().head;
    let lists = kinds.into_iter().flat_map(|(max, make)| {
        let bytes = of(make, max).len();
        [max, 8 * max, max * (LARGE_BYTES / bytes)].map(|count| of(make, count))
    });
    lists.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_become_many_times_their_bytes() {
    const TIMES: usize = 100;
    /// Whoever says what a node cannot take in is not read any further.
    const LARGE_LINKS: u64 = 8;
    let scene = Scene::start().await;
    let address = scene.address;
    let lists = long_lists();
    let attacker = |number: u64, lists: Vec<Bytes>| async move {
        let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
        for list in lists.iter().cycle().take(TIMES) {
            peer.say_head(list, 0).await.ok()?;
        }
        Some(())
    };
    let (large, small): (Vec<_>, Vec<_>) = lists.into_iter().partition(|list| list.len() > 16 << 20);
    assert_eq!((large.len(), small.len()), (3, 6));
    let all = (0..8).map(|number| attacker(number, small.clone()));
    let all = all.chain((8..8 + LARGE_LINKS).map(|number| attacker(number, large.clone())));
    scene.check_beside("lists that become much more", all).await;
    scene.check_after("127.0.0.2").await;
}

/// Each is refused at once: nothing of it is needed any more.
#[tokio::test(flavor = "multi_thread")]
async fn heads_of_hops_that_become_many_times_their_bytes_and_whose_tails_never_come() {
    const LINKS: u64 = 64;
    const TAIL_BYTES: u32 = 1 << 20;
    let scene = Scene::start().await;
    let address = scene.address;
    let (service, key) = ("nobody".to_owned(), captured().await.key);
    let line = LogLine { step: 1, node: String::new(), at_us: 0, text: String::new(), branch: key.branch, number: 0 };
    let (trace, console) = (Some(vec![StepTrace::default(); TRACE_STEPS_MAX]), vec![line; CONSOLE_LINES_MAX]);
    let hop = Hop { service, trace, console, continuation_bytes: TAIL_BYTES, ..captured().await };
    let attacker = move |number: u64| {
        let hop = hop.clone();
        async move {
            let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
            let node = NodeRef { id: NodeId(100 + number), name: String::new(), address: None, site: None };
            for chain in 0..u64::from(Limits::default().fragmented_messages_max) {
                let head = of_chain(&hop, chain, &node).encode().head;
                peer.say_head(&head, TAIL_BYTES.into()).await.ok()?;
            }
            // It is closed, since its tails do not come.
            while peer.stream.read_buf(&mut peer.bytes).await.is_ok_and(|read| read > 0) {}
            Some(())
        }
    };
    scene.check_beside("heads whose tails never come", (0..LINKS).map(attacker)).await;
    scene.check_after("127.0.0.2").await;
}

/// A list of services has no tail: nobody keeps it for one.
#[tokio::test(flavor = "multi_thread")]
async fn a_tail_is_announced_for_what_has_none() {
    const LINKS: u64 = 8;
    let scene = Scene::start().await;
    let (address, list) = (scene.address, long_lists().swap_remove(0));
    let attacker = move |number: u64| {
        let list = list.clone();
        async move {
            let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
            // It may be refused while it is still being said.
            let _ = peer.say_head(&list, 1 << 20).await;
            // Not even read any more.
            let _ = peer.say(Message::List(9)).await;
            while peer.stream.read_buf(&mut peer.bytes).await.is_ok_and(|read| read > 0) {}
            while let Some(frame) = Frame::decode(&mut peer.bytes, &Limits::default()).unwrap() {
                assert!(matches!(frame, Frame::Ping { .. } | Frame::Pong { .. }), "{frame:?}");
            }
            Some(())
        }
    };
    let ended = scene.check_beside("tails of what has none", (0..LINKS).map(attacker)).await;
    assert!(ended.iter().all(Option::is_some), "they were linked");
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_calls_beside_a_link_and_answers_that_are_sent_back() {
    let scene = Scene::start().await;
    let mut peer = Peer::dial("127.0.0.2", scene.address, 100).await.unwrap();
    let text = "x".repeat(100_000);
    // Answers lie where this peer, which maps nothing, is said to look; sent back they come by the link, once.
    for id in 0..6 {
        peer.say(echo(id, &text)).await.unwrap();
        match peer.message().await {
            Message::Segment(SegmentMessage::Carried(number, _)) if id < 4 => {
                for number in [number + 1_000, number, number, number] {
                    peer.say(Message::Segment(SegmentMessage::NotMapped(number))).await.unwrap();
                }
                let back = peer.message().await;
                assert!(matches!(back, Message::Return(answered, ..) if answered == id), "{back:?}");
            }
            // It is not asked to map any more.
            Message::Return(answered, ..) => assert!(answered == id && id >= 4, "{answered} {id}"),
            other => panic!("{other:?}"),
        }
    }
    // What cannot be ends the link; what it names is not looked for.
    let at = At { number: 1, generation: 1, offset: 64, grant: Some(1) };
    let lent = Lent { whole: 1, bytes: 4_096, word: 0, uses: 1 };
    let told = |offset, bytes| Buffer { at: At { offset, ..at }, bytes, lent: Some(lent) };
    for (number, wrong) in [told(64, 5_000), told(u64::MAX, 2), told(64, 0), Buffer { lent: None, ..told(64, 100) }]
        .into_iter()
        .enumerate()
    {
        let mut liar = Peer::dial("127.0.0.2", scene.address, 200 + number as u64).await.unwrap();
        liar.say(Message::Segment(SegmentMessage::Carried(1, wrong))).await.unwrap();
        while liar.stream.read_buf(&mut liar.bytes).await.is_ok_and(|read| read > 0) {}
    }
    // What may be, and is not there, is asked for where it is said to be, and then sent back, each of it.
    let mut liar = Peer::dial("127.0.0.2", scene.address, 300).await.unwrap();
    let numbers = [7, 8, 7];
    for number in numbers {
        liar.say(Message::Segment(SegmentMessage::Carried(number, told(64, 1_000)))).await.unwrap();
    }
    let mut sent_back = Vec::new();
    while sent_back.len() < numbers.len() {
        match liar.message().await {
            Message::Segment(SegmentMessage::NotMapped(number)) => sent_back.push(number),
            Message::Segment(SegmentMessage::Attach { id, .. }) => {
                liar.say(Message::Segment(SegmentMessage::Refused(id, SegmentRefusal::NotShared))).await.unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(sent_back, numbers);
    let again = async move {
        for number in 0..20_000 {
            liar.say(Message::Segment(SegmentMessage::NotMapped(number))).await.ok()?;
        }
        Some(())
    };
    scene.check_beside("answers that are sent back", [again]).await;
    scene.check_after("127.0.0.2").await;
}

/// Links of this address, as many as there may be, which say nothing.
async fn idle_links(from: &str, to: SocketAddr, first: u64) -> Vec<Peer> {
    let mut idle = Vec::new();
    while let Some(peer) = Peer::dial(from, to, first + idle.len() as u64).await {
        idle.push(peer);
        assert!(idle.len() < 1_000, "one address has nearly all links");
    }
    println!("{} links of {from}", idle.len());
    idle
}

/// Links with the node from this address, once it has seen that other links have gone.
async fn gets_in(from: &str, to: SocketAddr, number: u64) {
    process::comes_to_pass("there is room again", async || Peer::dial(from, to, number).await.is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_links_of_one_address_keep_nobody_else_out() {
    let scene = Scene::start().await;
    let quiet = scene.quiet().await;
    let idle = idle_links("127.0.0.2", scene.address, 100).await;
    assert!(Peer::dial("127.0.0.3", scene.address, 99).await.is_some(), "another address gets in");
    let another = nodes::builder("another").policy(node::beating(nodes::PATIENT_BEAT_MS));
    let another = another.join(scene.nodes.place("a")).connect().await.unwrap();
    assert_eq!(run(&another, LOOK, json!("hello")).await.value(), &json!(["a", "hello"]));
    quiet.under("idle links of one address", async || scene.check().await).await;
    drop(idle);
    gets_in("127.0.0.2", scene.address, 98).await;
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_links_of_many_addresses_leave_room_for_the_nodes_own_dials() {
    const ELSEWHERE: &str = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("c/where", null)];"#;
    let (nodes, client) = Nodes::patient(&["b", "a"]).await;
    let good = async || assert_eq!(run(&client, LOOK, json!("hello")).await.value(), &json!(["a", "hello"]));
    let quiet = Quiet::of(nodes.id("a"), good).await;
    let address: SocketAddr = nodes.place("a").address.parse().unwrap();
    let mut idle = Vec::new();
    for host in 2..6 {
        idle.extend(idle_links(&format!("127.0.0.{host}"), address, host * 1_000).await);
    }
    assert!(Peer::dial("127.0.0.9", address, 99).await.is_none(), "{} links are not all", idle.len());
    quiet.under("idle links of many addresses", good).await;
    // It is known at `b` alone, and cannot dial `a`.
    let mut hidden = Nodes::default();
    hidden.introduce("b", nodes.place("b").address);
    hidden.add("c", &["--beat-ms", &nodes::PATIENT_BEAT_MS.to_string()]).await;
    assert_eq!(run(&client, ELSEWHERE, json!(null)).await.value(), &json!(["a", "c"]), "it dials on its own");
    drop(idle);
    gets_in("127.0.0.9", address, 99).await;
    good().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_byte_a_second_in_mid_message_is_not_waited_for() {
    const LINKS: u64 = 64;
    /// Far more than a node waits for.
    const BYTES_MAX: usize = 100;
    let scene = Scene::start().await;
    let address = scene.address;
    let attacker = move |number: u64| async move {
        let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
        peer.say_half(30 << 20, 16 << 10).await.ok()?;
        let frame = Frame::More { id: 1, data: vec![1; 16 << 10].into() }.encode();
        let mut second = tokio::time::interval(Duration::from_secs(1));
        for (sent, byte) in frame[..BYTES_MAX].iter().enumerate() {
            second.tick().await;
            // It is pinged meanwhile, and does not answer.
            if peer.stream.write_all(&[*byte]).await.is_err() {
                return Some(sent);
            }
        }
        None
    };
    let ended = scene.check_beside("one byte a second", (0..LINKS).map(attacker)).await;
    assert!(ended.iter().all(Option::is_some), "some are still waited for: {ended:?}");
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_hops_in_one_read() {
    const HOPS: u64 = 2_000;
    const ROUNDS: u64 = 5;
    let scene = Scene::start().await;
    let address = scene.address;
    let (service, function) = ("a".to_owned(), "where".to_owned());
    let hop = Hop { service, function, ..captured().await };
    let attacker = move |number: u64| {
        let hop = hop.clone();
        async move {
            let mut peer = Peer::dial("127.0.0.2", address, 100 + number).await?;
            let me = NodeRef { id: NodeId(100 + number), name: "attacker".into(), address: None, site: None };
            for round in 0..ROUNDS {
                let hops = (1..=HOPS).map(|one| of_chain(&hop, round * HOPS + one, &me)).chain([Message::List(round)]);
                let bytes: Vec<u8> = hops.flat_map(whole).collect();
                // What comes back is read while the rest is on its way.
                let (mut reader, mut writer) = peer.stream.split();
                let mut sending = std::pin::pin!(writer.write_all(&bytes));
                loop {
                    tokio::select! {
                        sent = &mut sending => break sent.ok()?,
                        _ = reader.read_buf(&mut peer.bytes) => {}
                    }
                }
                while !matches!(peer.message().await, Message::Listing(..)) {}
            }
            Some(())
        }
    };
    let ended = scene.check_beside("many small hops in one read", [attacker(0)]).await;
    assert!(ended.iter().all(Option::is_some), "a link was closed: {ended:?}");
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_under_a_number_that_is_linked_gets_no_answers() {
    let scene = Scene::start().await;
    let quiet = scene.quiet().await;
    let mut victim = Peer::dial("127.0.0.2", scene.address, 7).await.unwrap();
    let mut thief = Peer::dial("127.0.0.3", scene.address, 7).await.unwrap();
    let theft = async move {
        for id in 0..100 {
            // Once it is refused, its link is closed.
            let _ = thief.say(echo(1_000 + id, "for the thief")).await;
            victim.say(echo(id, "for the victim")).await.unwrap();
            let Message::Return(answered, ..) = victim.message().await else { panic!("another message") };
            assert_eq!(answered, id);
        }
        // The thief's link is held as long as the victim's.
        (victim, thief)
    };
    let both = quiet.beside("greetings under a taken number", theft, async || scene.check().await).await;
    drop(both);
    scene.check_after("127.0.0.2").await;
}
