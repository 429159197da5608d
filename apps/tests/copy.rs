//! Copies over real nodes: by chain and by plain calls, over directories and over a real NFS server, with the same function.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../catena/tests/common/held.rs"]
mod held;
#[path = "../../catena/tests/processes/relay.rs"]
mod relay;

use std::{
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use catena::{Client, Node, Place, Sandbox, SandboxConfig, from_value};
use catena_apps::{copy, files};
use catena_bridge_nfs::{NfsBridge, NfsConfig};
use catena_dfs::{Clerk, ClerkConfig, NfsDoor, Server, ServerConfig};
use catena_files::{DirEntry, Directory, FileService};
use catena_ganesha::GaneshaServer;

use crate::{held::HeldPort, relay::Relay};

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(SandboxConfig::default()).expect("a sandbox"));

struct Pair {
    client: Client,
    _nodes: [Node; 2],
}

async fn node(name: &str, files: Arc<dyn FileService>, join: Option<&Node>) -> Node {
    let service = files::service(&format!("files.{name}"), files);
    let mut builder = Node::builder(name).listen("127.0.0.1:0").sandbox(SANDBOX.clone()).service(service);
    if let Some(first) = join.and_then(Node::address) {
        builder = builder.join(Place::new(first));
    }
    builder.start().await.unwrap()
}

async fn pair(from: Arc<dyn FileService>, to: Arc<dyn FileService>) -> Pair {
    let from = node("from", from, None).await;
    let to = node("to", to, Some(&from)).await;
    let place = Place::new(from.address().unwrap());
    let client = Client::builder("client").sandbox(SANDBOX.clone()).join(place).connect().await.unwrap();
    Pair { client, _nodes: [from, to] }
}

fn noise(path: &Path, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new_derive_key("catena copy test").finalize_xof().fill(&mut noise);
    std::fs::write(path, &noise).unwrap();
    noise
}

async fn both_ways(pair: &Pair, bytes: u64, read_target: impl Fn(&str) -> Vec<u8>, original: &[u8]) {
    let code = copy::code(&pair.client).await.unwrap();
    let job = |target: &str| copy::Copy::new("files.from", "source.bin", "files.to", target);
    let by_chain = copy::by_chain(&pair.client, &code, &job("chain.bin"), |_| ()).await.unwrap();
    assert_eq!(by_chain.bytes, bytes);
    assert!(read_target("chain.bin") == original, "a copy differs");
    let by_reference = copy::blob_code(&pair.client).await.unwrap();
    for (name, part_bytes) in [("blob.bin", None), ("parts.bin", Some(100_000))] {
        let told = std::cell::Cell::new(0);
        let show = |progress: copy::Progress| told.set(progress.written.max(told.get()));
        let copied = copy::by_blob(&pair.client, &by_reference, &job(name), part_bytes, show).await.unwrap();
        assert_eq!((copied.bytes, told.get()), (bytes, bytes));
        assert!(read_target(name) == original, "{name}: a copy differs");
        let carried = copied.trace.iter().map(|step| step.params_bytes.max(step.continuation_bytes)).max();
        assert!(carried.unwrap() < 100_000, "no chunk passes a function: {carried:?}");
    }
    for writes in [copy::Writes::Stable, copy::Writes::Committed] {
        let name = format!("{writes:?}.bin");
        let by_rpc = copy::by_rpc_with(&pair.client, &job(&name), writes, |_| ()).await.unwrap();
        let marks = by_rpc.marks.unwrap();
        assert_eq!(by_rpc.bytes, bytes);
        assert!(read_target(&name) == original, "{writes:?}: a copy differs");
        let in_order = [marks.found_us, marks.first_read_us, marks.read_us, marks.written_us];
        assert!(in_order.is_sorted(), "{marks:?}");
    }
    let hash = copy::hash(&pair.client, "files.from", "source.bin").await.unwrap();
    assert_eq!(copy::hash(&pair.client, "files.to", "chain.bin").await.unwrap(), hash);
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_directories() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The last is more than one write takes.
    for bytes in [0, 1, 32 << 10, 700_001, 3_000_001] {
        let original = noise(&from.path().join("source.bin"), bytes);
        let pair =
            pair(Arc::new(Directory::open(from.path()).unwrap()), Arc::new(Directory::open(to.path()).unwrap())).await;
        both_ways(&pair, bytes as u64, |name| std::fs::read(to.path().join(name)).unwrap(), &original).await;
    }
}

/// A part is held back in its middle, and then the link is gone: the rest of the part comes by another link, and so do the parts after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_in_the_middle_of_a_part_is_survived() {
    const BYTES: usize = 24 << 20;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let original = noise(&from.path().join("source.bin"), BYTES);
    let held = HeldPort::new();
    let listen = held.address.to_string();
    let mut relay = Relay::to(listen.clone()).await;
    let service = |name: &str, folder: &Path| {
        let files = files::service(&format!("files.{name}"), Arc::new(Directory::open(folder).unwrap()));
        Node::builder(name).sandbox(SANDBOX.clone()).without_shared_memory().service(files)
    };
    let target = service("to", to.path()).listen(&listen).advertise(&relay.address).start().await.unwrap();
    let source = service("from", from.path()).listen("127.0.0.1:0").join(Place::new(&relay.address));
    let source = source.start().await.unwrap();
    let near = Client::builder("client").sandbox(SANDBOX.clone());
    let near = near.join(Place::new(source.address().unwrap())).join(Place::new(&listen)).connect().await.unwrap();

    relay.allow(BYTES as u64 / 3);
    let code = copy::blob_code(&near).await.unwrap();
    let job = copy::Copy::new("files.from", "source.bin", "files.to", "copy.bin");
    let copying = tokio::spawn(async move { copy::by_blob(&near, &code, &job, Some(6 << 20), |_| ()).await });
    relay.holds().await;
    assert!(!copying.is_finished());
    relay.cut();
    relay.allow(u64::MAX);
    assert_eq!(copying.await.unwrap().unwrap().bytes, BYTES as u64);
    assert!(std::fs::read(to.path().join("copy.bin")).unwrap() == original, "the copy differs");
    drop((source, target));
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_directory_to_an_nfs_server_with_the_same_function() {
    let from = tempfile::tempdir().unwrap();
    let original = noise(&from.path().join("source.bin"), 300_000);
    let server = GaneshaServer::start();
    let bridge = NfsBridge::connect(server.config()).await.unwrap();
    let pair = pair(Arc::new(Directory::open(from.path()).unwrap()), Arc::new(bridge)).await;
    both_ways(&pair, 300_000, |name| std::fs::read(server.dir.join(name)).unwrap(), &original).await;
}

/// The clerk as the file service that it is, and as its NFS clients see it.
#[tokio::test(flavor = "multi_thread")]
async fn from_a_directory_to_a_clerk_with_the_same_function() {
    let from = tempfile::tempdir().unwrap();
    let original = noise(&from.path().join("source.bin"), 300_000);
    for by_nfs in [false, true] {
        let served = tempfile::tempdir().unwrap();
        let config = ServerConfig { grace: Duration::ZERO, ..ServerConfig::new(served.path()) };
        let server = Server::start(config).await.unwrap();
        let clerk = Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
        let door = NfsDoor::open(clerk.clone(), 0).await.unwrap();
        let ports = Some(door.port());
        let config = NfsConfig { nfs_port: ports, mount_port: ports, ..NfsConfig::new("127.0.0.1", "/") };
        let target: Arc<dyn FileService> =
            if by_nfs { Arc::new(NfsBridge::connect(config).await.unwrap()) } else { Arc::new(clerk) };
        let pair = pair(Arc::new(Directory::open(from.path()).unwrap()), target).await;
        both_ways(&pair, 300_000, |name| std::fs::read(served.path().join(name)).unwrap(), &original).await;
    }
}

/// More than one answer of READDIR holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_directory_is_listed_by_replies() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names: Vec<_> = (0..700).map(|number| format!("file-{number:03}")).collect();
    names.iter().for_each(|name| std::fs::write(from.path().join(name), "").unwrap());
    let pair =
        pair(Arc::new(Directory::open(from.path()).unwrap()), Arc::new(Directory::open(to.path()).unwrap())).await;
    let mut replies = pair.client.replies("files.from/list", &serde_json::json!({})).await.unwrap();
    let mut listed = Vec::new();
    while let Some(entry) = replies.next().await {
        listed.push(from_value::<DirEntry>(&entry.unwrap().into_value()).unwrap().name);
    }
    listed.sort_unstable();
    assert_eq!((listed, replies.missing().len()), (names, 0));
    let refused = pair.client.replies("files.from/list", &serde_json::json!({ "count": 0 })).await.unwrap();
    let why = refused.in_parallel(1, async |_| ()).await.unwrap_err();
    assert_eq!(why.name, "NFS3ERR_TOOSMALL", "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_source_harms_no_target() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(to.path().join("kept"), "as it was").unwrap();
    let pair =
        pair(Arc::new(Directory::open(from.path()).unwrap()), Arc::new(Directory::open(to.path()).unwrap())).await;
    let code = copy::code(&pair.client).await.unwrap();
    let job = copy::Copy::new("files.from", "nowhere", "files.to", "kept");
    for why in [
        copy::by_chain(&pair.client, &code, &job, |_| ()).await.unwrap_err(),
        copy::by_rpc(&pair.client, &job, |_| ()).await.unwrap_err(),
    ] {
        assert_eq!(why.name, "NFS3ERR_NOENT");
        assert_eq!(std::fs::read_to_string(to.path().join("kept")).unwrap(), "as it was");
    }
    std::fs::create_dir(from.path().join("folder")).unwrap();
    let job = copy::Copy::new("files.from", "folder", "files.to", "kept");
    let why = copy::by_chain(&pair.client, &code, &job, |_| ()).await.unwrap_err();
    assert_eq!(why.name, "NotAFile");
    assert_eq!(std::fs::read_to_string(to.path().join("kept")).unwrap(), "as it was");
}
