//! Figure 5 of the paper over real nodes: a file is copied to a service that replicates each change by a chain of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use catena::{Exception, RunOptions, Sandbox, SandboxConfig, StepTrace, Topology, to_value};
use catena_apps::{
    copy::{self, ChunkCode, Copy},
    files,
    replicated::{BACKUP, PRIMARY, REPLICATED, SOURCE, replicated},
};
use catena_bridge::{Identity, UnixUser, service_of};
use catena_bridge_nfs::{NfsBridge, NfsConfig, NfsService};
use catena_files::{Directory, FUNCTIONS, FileService};
use catena_ganesha::{GaneshaServer, Way};
use common::Stage;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(SandboxConfig::default()).expect("a sandbox"));

struct Dirs([TempDir; 3]);

impl Dirs {
    fn new() -> Self {
        Self([(); 3].map(|()| tempfile::tempdir().unwrap()))
    }

    fn services(&self) -> [Arc<dyn FileService>; 3] {
        self.0.each_ref().map(|dir| Arc::new(Directory::open(dir.path()).unwrap()) as Arc<dyn FileService>)
    }

    fn at(&self, name: &str) -> &Path {
        let index = ["source", "primary", "backup"].iter().position(|known| *known == name).unwrap();
        self.0[index].path()
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new_derive_key("catena replication test").finalize_xof().fill(&mut noise);
    noise
}

/// The same program without composing.
fn detached() -> RunOptions {
    RunOptions { compose: false, ..RunOptions::default() }
}

fn job(target: &str) -> Copy {
    Copy::new(SOURCE, "source.bin", REPLICATED, target)
}

/// Steps of a trace in the order they were begun: what was called, where, and whether the chain was there already.
fn steps(trace: &[StepTrace]) -> Vec<(&str, &str, bool)> {
    let mut trace: Vec<_> = trace.iter().collect();
    trace.sort_by_key(|step| step.step);
    trace.iter().map(|step| (step.target.as_str(), step.node.as_str(), step.in_place)).collect()
}

async fn run(stage: &Stage, source: &str, input: Json, options: &RunOptions) -> (Result<Json, Exception>, Vec<String>) {
    let code = stage.client.javascript("test.js", source).await.unwrap();
    let mut replies = stage.client.run_with(&code, &to_value(&input).unwrap(), options).unwrap();
    let result = replies.last().await.and_then(|value| catena::from_value(&value));
    (result, replies.path().to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_becomes_one_with_the_replication_and_neither_knows_of_the_other() {
    let dirs = Dirs::new();
    let stage = Stage::open(&SANDBOX, None, dirs.services()).await.unwrap();
    let original = noise(300_001);
    stage.put("source.bin", &original).await.unwrap();
    let chunks = ChunkCode::load(&stage.client).await.unwrap();

    let composed =
        copy::by_chunks(&stage.client, &chunks, &job("composed.bin"), &RunOptions::default(), |_| ()).await.unwrap();
    let detached = copy::by_chunks(&stage.client, &chunks, &job("detached.bin"), &detached(), |_| ()).await.unwrap();
    let whole = copy::code(&stage.client).await.unwrap();
    let whole = copy::by_chain(&stage.client, &whole, &job("whole.bin"), |_| ()).await.unwrap();
    copy::by_rpc(&stage.client, &job("rpc.bin"), |_| ()).await.unwrap();
    assert_eq!((composed.bytes, detached.bytes, whole.bytes), (300_001, 300_001, 300_001));
    for name in ["composed.bin", "detached.bin", "whole.bin", "rpc.bin"] {
        for place in ["primary", "backup"] {
            assert!(std::fs::read(dirs.at(place).join(name)).unwrap() == original, "{name} at the {place} differs");
        }
    }

    let read = ("files.source/read", "source", false);
    let write = ("files/write", "primary", false);
    let [at_primary, at_backup] = [("files.primary/write", "primary", true), ("files.backup/write", "backup", false)];
    let seen = steps(&composed.trace);
    assert_eq!(&seen[seen.len() - 4..], [read, write, at_primary, at_backup], "on to the backup, and home from there");
    let seen = steps(&detached.trace);
    assert_eq!(&seen[seen.len() - 2..], [read, write], "the replication ran detached");

    let reads = steps(&whole.trace).into_iter().filter(|(target, ..)| *target == "files.source/read");
    assert!(reads.clone().count() == 10 && reads.clone().all(|(_, node, _)| node == "primary"), "{:?}", whole.trace);

    let last = composed.trace.iter().max_by_key(|step| step.step).unwrap();
    println!("to the backup: {} bytes of parameters, {} of state", last.params_bytes, last.continuation_bytes);
    assert!((32 << 10..34 << 10).contains(&last.params_bytes), "the chunk goes as a parameter: {last:?}");
    assert!(last.continuation_bytes < 16 << 10, "and nowhere else: {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_from_making_and_from_looking_up_lead_to_both_files() {
    let dirs = Dirs::new();
    let stage = Stage::open(&SANDBOX, None, dirs.services()).await.unwrap();
    let source = r#"import { call } from "catena";
        const bytes = (text) => Uint8Array.from(text, (char) => char.charCodeAt(0));
        const text = (bytes) => String.fromCharCode(...bytes);
        export default async () => {
            const dir = await call("files/mkdir", { path: "dir" });
            const made = await call("files/create", { dir: dir.handle, name: "made" });
            await call("files/write", { handle: made.handle, offset: 0, data: bytes("one") });
            const found = await call("files/lookup", { dir: dir.handle, name: "made" });
            const wrote = await call("files/write", { handle: found.handle, offset: 3, data: bytes(" two") });
            const done = await call("files/commit", { handle: found.handle });
            const read = text((await call("files/read", { handle: found.handle, offset: 0, count: 99 })).data);
            const names = (await call("files/readdir", { dir: dir.handle })).entries.map((entry) => entry.name);
            const size = (await call("files/getattr", { handle: made.handle })).size;
            const root = await call("files/root", null);
            await call("files/rename", { from_dir: dir.handle, from_name: "made", to_dir: root.handle, to_name: "moved" });
            let stale = "nothing";
            try { await call("files/write", { handle: found.handle, offset: 0, data: bytes("x") }); } catch (e) { stale = e.name; }
            await call("files/create", { path: "gone" });
            await call("files/remove", { path: "gone" });
            let foreign = "nothing";
            try { await call("files/read", { handle: bytes("Rnone"), offset: 0, count: 1 }); } catch (e) { foreign = e.name; }
            return { wrote: wrote.count, same: `${wrote.verifier}` === `${done.verifier}`, read, names, size, stale, foreign };
        };"#;
    let (result, _) = run(&stage, source, Json::Null, &RunOptions::default()).await;
    let expected = json!({ "wrote": 4, "same": true, "read": "one two", "names": ["made"], "size": 7,
        "stale": "NFS3ERR_NOENT", "foreign": "NFS3ERR_BADHANDLE" });
    assert_eq!(result.unwrap(), expected);
    for place in ["primary", "backup"] {
        assert_eq!(std::fs::read(dirs.at(place).join("moved")).unwrap(), b"one two", "{place}");
        assert!(!dirs.at(place).join("gone").exists() && !dirs.at(place).join("dir/made").exists(), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_down_is_named_and_what_the_primary_did_is_said() {
    let dirs = Dirs::new();
    let stage = Stage::open(&SANDBOX, None, dirs.services()).await.unwrap();
    let create = r#"import { call } from "catena";
        export default async (path) => (await call("files/create", { path, how: "guarded" })).attributes.size;"#;
    let options = RunOptions { timeout: Duration::from_secs(20), ..RunOptions::default() };
    assert_eq!(run(&stage, create, json!("before"), &options).await.0.unwrap(), 0);
    let (refused, _) = run(&stage, create, json!("before"), &options).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.name, "NFS3ERR_EXIST", "{refused}");
    assert!(!refused.message.contains(BACKUP), "the primary refused, and the backup was not asked: {refused}");

    stage.nodes[2].close(Duration::ZERO).await;
    for compose in [true, false] {
        let name = format!("after-{compose}");
        let (lost, _) = run(&stage, create, json!(name), &RunOptions { compose, ..options.clone() }).await;
        let lost = lost.unwrap_err();
        println!("compose {compose}: {lost}");
        for word in [BACKUP, &format!("{PRIMARY} has done this create"), "they differ"] {
            assert!(lost.message.contains(word), "{word:?} is missing: {lost}");
        }
        assert!(dirs.at("primary").join(&name).exists() && !dirs.at("backup").join(&name).exists());
    }
    let read = r#"import { call } from "catena"; export default async () => (await call("files/readdir", {})).entries.length;"#;
    assert_eq!(run(&stage, read, Json::Null, &options).await.0.unwrap(), 3, "reading goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_may_have_done_it_is_said_to_be_unknown() {
    let dirs = Dirs::new();
    let server = GaneshaServer::start();
    let way = Way::to(server.nfs_port).await;
    let bridge = NfsBridge::connect(NfsConfig { nfs_port: Some(way.port), ..server.config() }).await.unwrap();
    let [source, primary, _] = dirs.services();
    let stage = Stage::open(&SANDBOX, None, [source, primary, Arc::new(bridge)]).await.unwrap();
    way.break_off();
    let create = r#"import { call } from "catena"; export default () => call("files/create", { path: "made", how: "guarded" });"#;
    let (lost, _) = run(&stage, create, Json::Null, &RunOptions::default()).await;
    let lost = lost.unwrap_err();
    assert_eq!((lost.name.as_str(), lost.unknown), ("FILES_OUTCOME_UNKNOWN", true), "{lost}");
    assert!(lost.message.contains("files.backup may or may not have done it"), "{lost}");
    assert!(server.dir.join("made").exists(), "it has");
}

#[test]
fn every_function_of_a_file_service_is_offered() {
    let service = replicated(REPLICATED, PRIMARY, BACKUP);
    let mut names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.sort_unstable();
    assert!(service.functions().eq(names));
}

#[tokio::test(flavor = "multi_thread")]
async fn primary_and_backup_may_be_nfs_servers_that_act_as_the_caller() {
    let dirs = Dirs::new();
    let servers = [GaneshaServer::start(), GaneshaServer::start()];
    let [source, ..] = dirs.services();
    let mut nfs = Vec::new();
    for (server, name) in servers.iter().zip([PRIMARY, BACKUP]) {
        std::os::unix::fs::chown(&server.dir, Some(1234), Some(1234)).unwrap();
        let bridge = NfsBridge::connect(server.config()).await.unwrap();
        nfs.push(service_of(NfsService::new(name, bridge, Identity::default())));
    }
    let backup = nfs.pop().into_iter().collect();
    nfs.push(replicated(REPLICATED, PRIMARY, BACKUP));
    let stage = Stage::of(&SANDBOX, None, [vec![files::service(SOURCE, source)], nfs, backup]).await.unwrap();
    let original = noise(200_000);
    stage.put("source.bin", &original).await.unwrap();
    let chunks = ChunkCode::load(&stage.client).await.unwrap();
    for compose in [true, false] {
        let user = to_value(&UnixUser { uid: 1234, gid: 1234, groups: vec![] }).unwrap();
        let mine = RunOptions { compose, credentials: Some(user), ..RunOptions::default() };
        let name = format!("{compose}.bin");
        copy::by_chunks(&stage.client, &chunks, &job(&name), &mine, |_| ()).await.unwrap();
        for server in &servers {
            assert!(std::fs::read(server.dir.join(&name)).unwrap() == original, "{name} at {}", server.dir.display());
            assert_eq!(std::fs::metadata(server.dir.join(&name)).unwrap().uid(), 1234, "made as the caller");
        }
        let other = to_value(&UnixUser { uid: 4321, gid: 4321, groups: vec![] }).unwrap();
        let other = RunOptions { credentials: Some(other), ..mine };
        let why = copy::by_chunks(&stage.client, &chunks, &job("other.bin"), &other, |_| ()).await.unwrap_err();
        assert!(why.name == "NFS3ERR_ACCES" && why.message.contains("uid 4321"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn composed_a_chain_goes_home_from_the_backup_and_detached_by_the_primary() {
    let dirs = Dirs::new();
    let stage = Stage::open(&SANDBOX, Some(Arc::new(Topology::paper())), dirs.services()).await.unwrap();
    stage.put("source.bin", b"source").await.unwrap();
    // What that saves in time is a figure: `composition_saved_pct` of `make bench`.
    let source = r#"import { call } from "catena";
        export default async (path) => {
            await call("files.source/lookup", { path: "source.bin" });
            return (await call("files/create", { path })).attributes.size;
        };"#;
    for (options, hosts) in [
        (RunOptions::default(), &["client", "source", "primary", "backup"][..]),
        (detached(), &["client", "source", "primary"]),
    ] {
        let (made, path) = run(&stage, source, json!(format!("made-{}", options.compose)), &options).await;
        assert_eq!((made.unwrap(), path.iter().map(String::as_str).collect::<Vec<_>>()), (json!(0), hosts.to_vec()));
    }
}
