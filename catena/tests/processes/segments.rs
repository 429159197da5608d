//! Segments between processes, one of which is killed while bytes are on their way, stopped, or cut off.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use catena::{Client, Exception, Export, Imported, Node, Place, Rights, Way, exceptions};
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use crate::{
    held::HeldPort,
    node::beating,
    nodes::{BEAT_MS, Nodes},
    process::PATIENCE,
    relay::Relay,
};

const BYTES: usize = 32 << 20;
/// What takes a while to be written, though it is written to memory.
const NEAR_BYTES: usize = 128 << 20;
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

/// A node of this process, where it listens, and the relay by which others come to it.
async fn behind_a_relay(way: Way) -> (Node, String, Relay) {
    let held = HeldPort::new();
    let listen = held.address.to_string();
    let relay = Relay::to(listen.clone()).await;
    let here = Node::builder("here").listen(&listen).advertise(&relay.address).policy(beating(BEAT_MS));
    let here = if way == Way::Link { here.without_shared_memory() } else { here };
    (here.start().await.unwrap(), listen, relay)
}

async fn importer_at(address: &str) -> Client {
    Client::builder("other").without_shared_memory().join(Place::new(address)).connect().await.unwrap()
}

fn open() -> Export {
    Export { anyone: Rights::ALL, ..Export::default() }
}

impl Pair {
    async fn start(more: &[&str]) -> Self {
        Self::start_by(Way::Link, more).await
    }

    async fn start_by(way: Way, more: &[&str]) -> Self {
        let (here, listen, relay) = behind_a_relay(way).await;
        let mut nodes = Nodes::default();
        nodes.introduce("here", relay.address.clone());
        let alone: &[&str] = if way == Way::Link { &["--without-shared-memory"] } else { &[] };
        nodes.add("a", &[alone, more].concat()).await;
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
    let board = pair.here.export("board", BYTES as u64, open()).unwrap();
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

    let other = importer_at(&pair.listen).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn of_a_write_in_shared_memory_whose_importer_is_killed_whole_words_are_done_and_nobody_waits_for_it() {
    let mut pair = Pair::start_by(Way::SharedMemory, &[]).await;
    let board = pair.here.export("board", NEAR_BYTES as u64, open()).unwrap();
    let client = pair.here.client();
    let write = json!({ "segment": "here/board", "bytes": NEAR_BYTES });
    let write = tokio::spawn(async move { client.call::<_, ()>("a", "write", &write).await });
    let begun = async {
        let mut first = [0];
        while first == [0] {
            tokio::task::yield_now().await;
            board.read(0, &mut first).unwrap();
        }
    };
    timeout(PATIENCE, begun).await.unwrap();
    pair.nodes.kill("a").await;
    let why = timeout(PATIENCE, write).await.unwrap().unwrap().unwrap_err();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::NODE_LOST, true), "{why}");
    assert!(pair.relay.passed_bytes() < PASS, "the link carried it: {} bytes", pair.relay.passed_bytes());

    let mut bytes = vec![9; NEAR_BYTES];
    board.read(0, &mut bytes).unwrap();
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    let done = words.iter().filter(|word| **word == [1; WORD_BYTES]).count();
    let not_done = words.iter().filter(|word| **word == [0; WORD_BYTES]).count();
    assert!(done > 0 && not_done > 0, "it was killed in its middle: {done} words are done");
    assert_eq!(done + not_done, words.len(), "a word is done by half");

    let far = importer_at(&pair.listen).await.import("here/board").await.unwrap();
    far.write(0, vec![2; 1 << 20]).await.unwrap();
    far.flush().await.unwrap();
    assert_eq!(far.read(0, 1 << 20).await.unwrap(), vec![2; 1 << 20]);
    timeout(PATIENCE, board.revoke()).await.expect("nobody waits for the dead").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_in_shared_memory_outlive_their_owner_and_it_is_found_dead() {
    const READ_BYTES: usize = 1 << 20;
    let mut pair = Pair::start_by(Way::SharedMemory, &["--export", &format!("board={READ_BYTES}")]).await;
    let board = pair.here.client().import("a/board").await.unwrap();
    board.write(0, vec![1; READ_BYTES]).await.unwrap();
    board.flush().await.unwrap();
    assert_eq!(board.way(), Way::SharedMemory);
    let (enough, (count, mut counted)) = (Arc::new(AtomicBool::new(false)), watch::channel(0_u32));
    let reads = (0..2).map(|_| {
        let (board, enough, count) = (board.clone(), Arc::clone(&enough), count.clone());
        tokio::spawn(async move {
            while !enough.load(Ordering::Relaxed) {
                assert!(board.read(0, READ_BYTES as u64).await.unwrap() == vec![1; READ_BYTES]);
                count.send_modify(|count| *count += 1);
                // A READ in memory waits for nothing, and is one step of its task however long it is: few of these end a turn.
                tokio::task::yield_now().await;
            }
        })
    });
    let reads: Vec<_> = reads.collect();
    let mut more = async |times| {
        let until = *counted.borrow() + times;
        timeout(PATIENCE, counted.wait_for(|count| *count >= until)).await.expect("a READ hangs").unwrap();
    };
    more(20).await;
    pair.nodes.kill("a").await;
    more(20).await;
    assert_eq!(watched(&board).await.name, exceptions::OWNER_DEAD);
    enough.store(true, Ordering::Relaxed);
    for read in reads {
        read.await.unwrap();
    }
}

/// What is wrong with the owner of a word.
async fn watched(word: &Imported) -> Exception {
    let watching = word.watch(0, Duration::from_millis(5), Duration::from_secs(1));
    timeout(PATIENCE, watching).await.expect("it is found out")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_stopped_is_silent_and_in_shared_memory_its_word_stands() {
    for (way, name) in [(Way::Link, exceptions::OWNER_SILENT), (Way::SharedMemory, exceptions::OWNER_STALLED)] {
        let mut pair = Pair::start_by(way, &["--export", "pulse=8"]).await;
        let pulse = pair.here.client().import("a/pulse").await.unwrap();
        assert_eq!(pulse.read(0, 8).await.unwrap().as_ref(), [0; 8]);
        pair.nodes.process("a").signal("STOP").await;
        let why = watched(&pulse).await;
        assert_eq!((why.name.as_str(), pulse.way()), (name, way), "{why}");
        pair.nodes.process("a").signal("CONT").await;
        assert_eq!(pulse.read(0, 8).await.unwrap().as_ref(), [0; 8], "{way:?}: it was there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_address_does_not_answer_is_cut_off_and_not_said_to_be_dead() {
    let (here, listen, mut relay) = behind_a_relay(Way::Link).await;
    let pulse = here.export("pulse", 8, open()).unwrap();
    let (cut_off, near) = (importer_at(&relay.address).await, importer_at(&listen).await);
    let [far, direct] = [&cut_off, &near].map(|client| client.import("here/pulse"));
    let (far, direct) = (far.await.unwrap(), direct.await.unwrap());
    relay.close().await;
    let why = watched(&far).await;
    assert_eq!(why.name, exceptions::NETWORK_CUT, "{why}");
    pulse.write(0, &7_u64.to_ne_bytes()).unwrap();
    assert_eq!(direct.read(0, 8).await.unwrap().as_ref(), 7_u64.to_ne_bytes(), "the owner lives");
}
