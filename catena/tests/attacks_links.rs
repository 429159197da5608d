//! What a peer does to a node over its links, while a client of another address runs chains there. The node is a process of its own, so that
//! what it takes can be seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

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

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use catena::{Client, NodeId, NodeRef};
use catena_net::{Frame, Hello, Identity, Limits, Message as Parts, decode_hello, encode_hello};
use catena_wire::{Budget, Message, Value};
use latency::Quiet;
use nodes::{Nodes, run};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

const MIB: u64 = 1 << 20;
/// The node's budget.
const MEMORY_BYTES: u64 = 256 * MIB;
/// What it has beside: guests, compiled modules, and what the allocator keeps.
const BESIDE_BYTES: u64 = 256 * MIB;
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
    memory_bytes_max: u64,
}

impl Scene {
    async fn start() -> Self {
        let mut nodes = Nodes::default();
        nodes.add("a", &["--memory", &MEMORY_BYTES.to_string()]).await;
        let client = nodes.client().await;
        let address = nodes.place("a").address.parse().unwrap();
        let mut scene = Self { nodes, client, address, memory_bytes_max: 0 };
        scene.check().await;
        scene
    }

    /// A good chain gets its answer, and the node holds no more than it may.
    async fn check(&mut self) {
        let ended = run(&self.client, LOOK, json!("hello")).await;
        assert_eq!(ended.value(), &json!(["a", "hello"]));
        let bytes = memory_bytes(self.nodes.process("a").id());
        self.memory_bytes_max = self.memory_bytes_max.max(bytes);
        assert!(bytes <= MEMORY_BYTES + BESIDE_BYTES, "{} MiB", bytes / MIB);
    }

    /// Good chains one after the other, as long as these attackers go on.
    async fn check_beside<F>(&mut self, attack: &str, attackers: impl IntoIterator<Item = F>)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let quiet = Quiet::of(async || self.check().await).await;
        let attackers: JoinSet<_> = attackers.into_iter().collect();
        quiet.beside(attack, attackers.join_all(), async || self.check().await).await;
        println!("{} MiB at most", self.memory_bytes_max / MIB);
    }

    /// Nothing is left of an attack: a client of the attacker's address can do what it could before.
    async fn check_after(mut self, attacker: &str) {
        self.check().await;
        let mut peer = Peer::dial(attacker, self.address, 4_711).await.expect("there is room again");
        let echoed = "x".repeat(4 << 20);
        peer.say(echo(1, &echoed)).await.unwrap();
        let back = peer.message().await;
        assert!(matches!(back, Message::Return(1, ..)), "{back:?}");
        self.check().await;
    }
}

/// The memory that a process has in use (`VmRSS`), in bytes.
fn memory_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
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
        let id = self.next_id;
        self.next_id += 1;
        let begin = Frame::Begin { id, head_bytes: head.len() as u32, tail_bytes: 0, data: Bytes::new() };
        self.stream.write_all(&begin.encode()).await?;
        for data in head.chunks(16 << 10) {
            let more = Frame::More { id, data: Bytes::copy_from_slice(data) };
            self.stream.write_all(&more.encode()).await?;
        }
        Ok(())
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

fn echo(id: u64, text: &str) -> Message {
    let params: Value = catena::to_value(&text).unwrap();
    let budget = Budget::new(60_000_000, 10);
    let (service, function) = ("a".to_owned(), "echo".to_owned());
    Message::Call { id, service, function, params, budget, key: None, credentials: None, duplicate: None, age_us: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn halves_of_messages_on_twelve_links() {
    let mut scene = Scene::start().await;
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
    let mut scene = Scene::start().await;
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
async fn idle_links_of_one_address_keep_nobody_else_out() {
    let mut scene = Scene::start().await;
    let mut idle = Vec::new();
    while let Some(peer) = Peer::dial("127.0.0.2", scene.address, 100 + idle.len() as u64).await {
        idle.push(peer);
        assert!(idle.len() < 1_000, "one address has nearly all links");
    }
    println!("{} links", idle.len());
    assert!(Peer::dial("127.0.0.3", scene.address, 99).await.is_some(), "another address gets in");
    let another = nodes::builder("another").join(scene.nodes.place("a")).connect().await.unwrap();
    assert_eq!(run(&another, LOOK, json!("hello")).await.value(), &json!(["a", "hello"]));
    scene.check().await;
    drop(idle);
    // The node sees that they have gone as soon as it can.
    while Peer::dial("127.0.0.2", scene.address, 98).await.is_none() {
        tokio::task::yield_now().await;
    }
    scene.check_after("127.0.0.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_under_a_number_that_is_linked_gets_no_answers() {
    let mut scene = Scene::start().await;
    let mut victim = Peer::dial("127.0.0.2", scene.address, 7).await.unwrap();
    let mut thief = Peer::dial("127.0.0.3", scene.address, 7).await.unwrap();
    for id in 0..100 {
        thief.say(echo(1_000 + id, "for the thief")).await.unwrap();
        victim.say(echo(id, "for the victim")).await.unwrap();
        let Message::Return(answered, ..) = victim.message().await else { panic!("another message") };
        assert_eq!(answered, id);
    }
    scene.check().await;
    drop(victim);
    scene.check_after("127.0.0.2").await;
}
