//! Nodes that are told to end while they still have something to send.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{fs::File, path::Path, sync::mpsc, thread, time::Duration};

use catena::Client;
use catena_files::{Entry, LookupParams, ReadParams, ReadResult};
use support::{Server, file, folder};
use tokio::task::JoinSet;

/// The longest that asking may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Asked for, in mebibytes: far more than the sockets' buffers on both sides take.
const ASKED: u64 = 100;

/// A client that asks a file service for a large file and, from the first answer on, reads nothing more, until it is dropped.
struct Stuck {
    _release: mpsc::SyncSender<()>,
}

impl Stuck {
    fn on(address: &str, service: &'static str, folder: &Path) -> Self {
        File::create(folder.join("large")).unwrap().set_len(ASKED << 20).unwrap();
        let (tell, told) = mpsc::sync_channel(1);
        let (release, hold) = mpsc::sync_channel::<()>(1);
        let address = address.to_owned();
        thread::spawn(move || {
            // One thread, which does not come back to the runtime: its sockets are read no more.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let _reads = ask(&address, service).await;
                tell.send(()).unwrap();
                let _ = hold.recv();
            });
        });
        told.recv_timeout(PATIENCE).expect("a first answer");
        Self { _release: release }
    }
}

/// Gives the reads that are under way when the first of them is answered.
async fn ask(address: &str, service: &'static str) -> JoinSet<()> {
    let client = Client::connect(address).await.unwrap();
    let lookup = LookupParams { path: Some("large".into()), ..LookupParams::default() };
    let file: Entry = client.call(service, "lookup", &lookup).await.unwrap();
    let mut reads = JoinSet::new();
    for index in 0..ASKED {
        let (client, handle) = (client.clone(), file.handle.clone());
        reads.spawn(async move {
            let read = ReadParams { handle, offset: index << 20, count: 1 << 20 };
            // The node ends before it has answered all of them.
            let _ = client.call::<_, ReadResult>(service, "read", &read).await;
        });
    }
    reads.join_next().await.unwrap().unwrap();
    reads
}

/// The address in a line for people.
fn address(line: &str) -> String {
    line.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap().to_owned()
}

fn up(folder: &tempfile::TempDir) -> (Server, Stuck) {
    let text =
        "name = \"n\"\nlisten = \"127.0.0.1:0\"\n[[service]]\nkind = \"files\"\nname = \"files.n\"\nroot = \".\"\n";
    let server = Server::start(&["up", &file(folder, "n.toml", text)]);
    let address = address(&server.line(|line| line.starts_with("node n ")));
    let stuck = Stuck::on(&address, "files.n", folder.path());
    (server, stuck)
}

#[test]
fn up_ends_at_once_by_a_second_signal() {
    for (first, second) in [("INT", "INT"), ("TERM", "TERM"), ("INT", "TERM")] {
        let folder = folder();
        let (server, _stuck) = up(&folder);
        server.signal(first);
        server.talk("once more to end at once");
        assert_eq!(server.end_by(second), Some(130), "{first}, then {second}");
    }
}

#[test]
fn up_gives_a_peer_that_does_not_read_up_in_the_end() {
    let folder = folder();
    let (server, _stuck) = up(&folder);
    assert_eq!(server.end_by("TERM"), Some(0));
}

#[test]
fn dev_ends_at_once_by_a_second_signal() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape"]);
    let row = server.line(|line| line.contains("Mountain View"));
    let data = Path::new(row.split_whitespace().last().unwrap()).to_owned();
    let _stuck = Stuck::on(&address(&row), "files.mtv", &data);
    server.signal("INT");
    server.talk("once more to end at once");
    assert_eq!(server.end_by("INT"), Some(130));
    assert!(!data.exists(), "the fresh folder is removed all the same");
}
