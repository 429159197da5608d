//! Segments between processes by a link, one of which is killed while bytes are on their way.

use catena::{Client, Export, Node, Place, Rights, exceptions};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    held::HeldPort,
    node::beating,
    nodes::{BEAT_MS, Nodes},
    process::PATIENCE,
    relay::Relay,
};

const BYTES: usize = 32 << 20;
/// So many pass, and what comes after them is held back.
const PASS: u64 = 4 << 20;
/// What is done whole or not at all, in bytes.
const WORD_BYTES: usize = 8;

/// A node of this process, and the process `a`, whose bytes to it pass a relay.
struct Pair {
    here: Node,
    listen: String,
    relay: Relay,
    nodes: Nodes,
}

impl Pair {
    async fn start(more: &[&str]) -> Self {
        let held = HeldPort::new();
        let listen = held.address.to_string();
        let relay = Relay::to(listen.clone()).await;
        let here = Node::builder("here").listen(&listen).advertise(&relay.address).without_shared_memory();
        let here = here.policy(beating(BEAT_MS)).start().await.unwrap();
        let mut nodes = Nodes::default();
        nodes.introduce("here", relay.address.clone());
        nodes.add("a", &[&["--without-shared-memory"], more].concat()).await;
        Self { here, listen, relay, nodes }
    }

    /// Kills `a` as soon as something is held back: the rest of it never comes.
    async fn kill_midway(&mut self) {
        self.relay.holds().await;
        self.nodes.kill("a").await;
        self.relay.cut();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_write_whose_importer_is_killed_the_first_words_are_done_and_nobody_else_is_hurt() {
    let mut pair = Pair::start(&[]).await;
    let open = Export { anyone: Rights::ALL, ..Export::default() };
    let board = pair.here.export("board", BYTES as u64, open).unwrap();
    pair.relay.allow(PASS);
    let client = pair.here.client();
    let write = json!({ "segment": "here/board", "bytes": BYTES });
    let write = tokio::spawn(async move { client.call::<_, ()>("a", "write", &write).await });
    pair.kill_midway().await;
    let why = timeout(PATIENCE, write).await.unwrap().unwrap().unwrap_err();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::NODE_LOST, true), "{why}");

    let mut bytes = vec![9; BYTES];
    board.read(0, &mut bytes).unwrap();
    let written = bytes.iter().take_while(|byte| **byte == 1).count();
    assert!((1..BYTES).contains(&written) && written.is_multiple_of(WORD_BYTES), "no word is done by half: {written}");
    assert!(bytes[written..].iter().all(|byte| *byte == 0), "what did not come was not written");

    let other =
        Client::builder("other").without_shared_memory().join(Place::new(&pair.listen)).connect().await.unwrap();
    let far = other.import("here/board").await.unwrap();
    far.write(0, vec![2; BYTES]).await.unwrap();
    far.flush().await.unwrap();
    assert_eq!(far.read(0, BYTES as u64).await.unwrap(), vec![2; BYTES]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_owner_is_killed_ends_and_names_the_owner() {
    let mut pair = Pair::start(&["--export", &format!("board={BYTES}")]).await;
    let board = pair.here.client().import("a/board").await.unwrap();
    pair.relay.allow(PASS);
    let read = tokio::spawn(async move { board.read(0, BYTES as u64).await });
    pair.kill_midway().await;
    let why = timeout(PATIENCE, read).await.unwrap().unwrap().unwrap_err();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::OWNER_LOST, false), "{why}");
    assert!(why.message.contains("a/board"), "{why}");
}
