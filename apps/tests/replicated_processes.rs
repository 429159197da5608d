//! Figure 5 of the paper with the source, the primary and the backup in processes of their own, and the client in another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

// Its processes are killed, never stopped.
#[allow(dead_code)]
#[path = "../../catena/tests/processes/process.rs"]
mod process;

use std::{io, path::Path, sync::Arc};

use catena::{Client, Node, NodeBuilder, Place, RunOptions, Service};
use catena_apps::{
    copy::{self, ChunkCode, Copy},
    files,
    replicated::{BACKUP, PRIMARY, REPLICATED, SOURCE, replicated},
};
use catena_files::Directory;
use process::Process;
use tempfile::TempDir;

/// Compiled modules, for all processes and from one run of the tests to the next.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");
/// The nodes: a process and a folder for each.
const NAMES: [&str; 3] = ["source", "primary", "backup"];

/// The process that the tests start. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    let Some(arguments) = process::arguments() else { return };
    let (name, folder, others) = (&arguments[0], Path::new(&arguments[1]), &arguments[2..]);
    let builder = Node::builder(name).listen("127.0.0.1:0").cache_dir(CACHE);
    let builder = services(name, folder).into_iter().fold(builder, NodeBuilder::service);
    let builder = others.iter().fold(builder, |builder, other| builder.join(Place::new(other)));
    let node = builder.start().await.unwrap();
    println!("\nready {}", node.address().unwrap());
    // Until the test is over, however it ends.
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await.unwrap().unwrap();
}

fn services(name: &str, folder: &Path) -> Vec<Service> {
    let folder = Arc::new(Directory::open(folder).unwrap());
    match name {
        "source" => vec![files::service(SOURCE, folder)],
        "primary" => vec![files::service(PRIMARY, folder), replicated(REPLICATED, PRIMARY, BACKUP)],
        _ => vec![files::service(BACKUP, folder)],
    }
}

struct Stage {
    client: Client,
    processes: [Option<Process>; 3],
    folders: [TempDir; 3],
}

impl Stage {
    async fn open() -> Self {
        let folders = NAMES.map(|_| tempfile::tempdir().unwrap());
        let (mut processes, mut addresses) = ([const { None }; 3], Vec::<String>::new());
        for (index, name) in NAMES.into_iter().enumerate() {
            let mut arguments = vec![name, folders[index].path().to_str().unwrap()];
            arguments.extend(addresses.iter().map(String::as_str));
            let mut process = Process::start([], &arguments);
            addresses.push(process.says("ready ").await);
            processes[index] = Some(process);
        }
        let client = Client::builder("client").cache_dir(CACHE);
        let client = addresses.iter().fold(client, |client, address| client.join(Place::new(address)));
        Self { client: client.connect().await.unwrap(), processes, folders }
    }

    fn at(&self, name: &str) -> &Path {
        self.folders[NAMES.iter().position(|known| *known == name).unwrap()].path()
    }

    /// A file of the source: what is in it.
    fn put(&self, bytes: usize) -> Vec<u8> {
        let mut noise = vec![0; bytes];
        blake3::Hasher::new_derive_key("catena replication test").finalize_xof().fill(&mut noise);
        std::fs::write(self.at("source").join("source.bin"), &noise).unwrap();
        noise
    }

    async fn kill_backup(&mut self) {
        self.processes[2].take().unwrap().kill().await;
    }
}

/// With composition, and without.
fn both_ways() -> [RunOptions; 2] {
    [true, false].map(|compose| RunOptions { compose, ..RunOptions::default() })
}

fn job(target: &str) -> Copy {
    Copy::new(SOURCE, "source.bin", REPLICATED, target)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_between_processes_is_replicated_with_composition_and_without() {
    let stage = Stage::open().await;
    let original = stage.put(300_001);
    let chunks = ChunkCode::load(&stage.client).await.unwrap();
    let ends_at = [("files.backup/write", "backup", false), ("files/write", "primary", false)];
    for (options, ends_at) in both_ways().iter().zip(ends_at) {
        let name = format!("composed-{}", options.compose);
        let copied = copy::by_chunks(&stage.client, &chunks, &job(&name), options, |_| ()).await.unwrap();
        assert_eq!(copied.bytes, 300_001);
        for place in ["primary", "backup"] {
            assert!(std::fs::read(stage.at(place).join(&name)).unwrap() == original, "{name} at the {place} differs");
        }
        // Composed, the copying chain comes home from the backup, of which it does not know.
        let last = copied.trace.iter().max_by_key(|step| step.step).unwrap();
        assert_eq!((last.target.as_str(), last.node.as_str(), last.in_place), ends_at, "{:?}", copied.trace);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_killed_during_a_copy_ends_it_with_its_name() {
    for options in both_ways() {
        let mut stage = Stage::open().await;
        stage.put(8 << 20);
        let chunks = ChunkCode::load(&stage.client).await.unwrap();
        let (tell, told) = tokio::sync::watch::channel(false);
        let copying = {
            let client = stage.client.clone();
            tokio::spawn(async move {
                let progress = |_| {
                    tell.send_replace(true);
                };
                copy::by_chunks(&client, &chunks, &job("copy.bin"), &options, progress).await
            })
        };
        told.clone().wait_for(|begun| *begun).await.unwrap();
        stage.kill_backup().await;
        let Err(lost) = copying.await.unwrap() else { panic!("most of it was still to be copied") };
        for word in [BACKUP, "they differ until it is done again"] {
            assert!(lost.message.contains(word), "{word:?} is missing: {lost}");
        }
        assert!(
            !stage.at("primary").join("copy.bin").exists(),
            "what was half written is removed where that can be done"
        );
    }
}
