//! The clerk as an NFS server: real NFS clients, libnfs's utilities and our own bridge.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use catena_bridge_nfs::{NfsBridge, NfsConfig};
use catena_dfs::{Clerk, ClerkConfig, NfsDoor, Server, ServerConfig};
use catena_files::testing::{Gaps, conformance_but, create, lookup, read};
use tempfile::TempDir;

struct Served {
    folder: TempDir,
    _server: Server,
    clerk: Clerk,
    door: NfsDoor,
}

async fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let config = ServerConfig { grace: Duration::ZERO, ..ServerConfig::new(folder.path()) };
    let server = Server::start(config).await.unwrap();
    let clerk = Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
    let door = NfsDoor::open(clerk.clone(), 0).await.unwrap();
    Served { folder, _server: server, clerk, door }
}

async fn bridge(door: &NfsDoor) -> NfsBridge {
    let ports = Some(door.port());
    NfsBridge::connect(NfsConfig { nfs_port: ports, mount_port: ports, ..NfsConfig::new("127.0.0.1", "/") })
        .await
        .unwrap()
}

async fn utility(name: &'static str, arguments: Vec<String>) -> Output {
    let run = tokio::task::spawn_blocking(move || Command::new(name).args(&arguments).output());
    run.await.unwrap().unwrap_or_else(|why| panic!("{name} does not run ({why}): tools/bootstrap.sh tests installs it"))
}

fn url(door: &NfsDoor, path: &str) -> String {
    let port = door.port();
    format!("nfs://127.0.0.1/{path}?nfsport={port}&mountport={port}&version=3")
}

fn good(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_nfs_bridge_conforms_over_it() {
    let served = serve().await;
    // What the server library does not tell us (docs/src/clerks.md, Gaps).
    let gaps = Gaps { mkdir_ignores_mode: true, remove_takes_directories: true };
    conformance_but(&bridge(&served.door).await, gaps).await;
    assert!(served.clerk.counts().hits > 0, "what NFS clients ask is read from the server's tables");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_utilities_of_libnfs_list_read_and_copy() {
    let Served { folder, _server, clerk: _, door } = serve().await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 11) as u8).collect();
    let here = tempfile::tempdir().unwrap();
    let file = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    std::fs::write(folder.path().join("dir/served"), &data).unwrap();
    std::fs::write(file("mine"), &data).unwrap();

    let listed = good(&utility("nfs-ls", vec![url(&door, "dir")]).await);
    assert!(listed.contains("served") && listed.contains("3000000"), "{listed}");
    let shown = utility("nfs-cat", vec![url(&door, "dir/served")]).await;
    assert!(shown.status.success() && shown.stdout == data);
    good(&utility("nfs-cp", vec![file("mine"), url(&door, "dir/copied")]).await);
    assert_eq!(std::fs::read(folder.path().join("dir/copied")).unwrap(), data);
    good(&utility("nfs-cp", vec![url(&door, "dir/copied"), file("back")]).await);
    assert_eq!(std::fs::read(Path::new(&file("back"))).unwrap(), data);
    let none = utility("nfs-cat", vec![url(&door, "dir/none")]).await;
    assert!(!none.status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_names_are_listed_once_each() {
    let Served { folder, _server, clerk, door } = serve().await;
    for number in 0..10_000 {
        std::fs::write(folder.path().join(format!("a rather ordinary name {number}")), b"").unwrap();
    }
    let listed = good(&utility("nfs-ls", vec![url(&door, "")]).await);
    let names: std::collections::BTreeSet<&str> =
        listed.lines().filter_map(|line| line.split("ordinary name ").nth(1)).collect();
    assert_eq!((names.len(), listed.lines().filter(|line| line.contains("ordinary")).count()), (10_000, 10_000));
    // Again: now from the tables, without the server.
    let before = clerk.counts();
    good(&utility("nfs-ls", vec![url(&door, "")]).await);
    let after = clerk.counts();
    let (hits, asked) = (after.hits - before.hits, after.asked - before.asked);
    assert!(hits > 20 * asked, "{hits} READs, {asked} asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_may_have_255_bytes_and_no_more() {
    let Served { folder, _server, clerk: _, door } = serve().await;
    let service = bridge(&door).await;
    let long = "é".repeat(127) + "x";
    let file = create(&service, &long).await.handle;
    assert!(folder.path().join(&long).exists());
    assert_eq!(lookup(&service, &long).await.unwrap().handle, file);
    assert!(read(&service, &file, 0, 10).await.unwrap().eof);
}
