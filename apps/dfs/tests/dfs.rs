//! The file service with real nodes: in each of its three ways, over TCP and in shared memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use catena_dfs::{Clerk, ClerkConfig, Server, ServerConfig, Way};
use catena_files::testing::{conformance, create, lookup, mkdir, read, write};
use catena_files::{FileService, Stable};
use tempfile::TempDir;

const WAYS: [Way; 3] = [Way::Data, Way::Hybrid, Way::Call];

async fn serve(folder: &TempDir, shared_memory: bool) -> Server {
    let config = ServerConfig { shared_memory, grace: Duration::ZERO, ..ServerConfig::new(folder.path()) };
    Server::start(config).await.unwrap()
}

async fn clerk(server: &Server, way: Way) -> Clerk {
    Clerk::connect(ClerkConfig { way, ..ClerkConfig::new(server.address()) }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_conforms_over_tcp_and_in_shared_memory() {
    for (way, shared_memory) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(&folder, shared_memory).await;
        let clerk = clerk(&server, way).await;
        conformance(&clerk).await;
        if way == Way::Data {
            let wanted = if shared_memory { catena::Way::SharedMemory } else { catena::Way::Link };
            assert_eq!(clerk.reads_by(), wanted);
            assert!(clerk.counts().hits > 0);
        } else {
            assert_eq!(clerk.counts().hits, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cached_is_read_without_the_server() {
    for shared_memory in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let data: Vec<u8> = (0..100_000_u32).map(|at| (at / 7) as u8).collect();
        std::fs::create_dir(folder.path().join("dir")).unwrap();
        std::fs::write(folder.path().join("dir/file"), &data).unwrap();
        std::os::unix::fs::symlink("dir/file", folder.path().join("link")).unwrap();
        let server = serve(&folder, shared_memory).await;
        let clerk = clerk(&server, Way::Data).await;
        let all = async || {
            let file = lookup(&clerk, "dir/file").await.unwrap().handle;
            let link = lookup(&clerk, "link").await.unwrap().handle;
            assert_eq!(clerk.readlink(&link).await.unwrap(), b"dir/file");
            let root = clerk.root(catena_files::RootParams {}).await.unwrap().handle;
            assert_eq!(clerk.list(&root, 0).await.unwrap().0.len(), 2);
            clerk.null().await.unwrap();
            for (offset, count) in
                [(0, 100), (8_000, 400), (8_192, 8_192), (0, 100_000), (99_999, 10), (100_000, 10), (98_304, 1)]
            {
                let found = read(&clerk, &file, offset as u64, count).await.unwrap();
                let end = data.len().min(offset + count as usize);
                assert_eq!(found.data.as_slice(), &data[offset..end], "{offset} {count}");
                assert_eq!(found.eof, end == data.len(), "{offset} {count}");
            }
        };
        all().await;
        let (before, control) = (clerk.counts(), server.asked());
        all().await;
        assert_eq!(server.asked(), control, "control went to the server for what is cached");
        assert!(clerk.counts().hits > before.hits + 15);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_by_one_is_seen_by_all_when_it_has_returned() {
    for shared_memory in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(&folder, shared_memory).await;
        let (writer, reader) = (clerk(&server, Way::Hybrid).await, clerk(&server, Way::Data).await);
        let file = create(&writer, "file").await.handle;
        mkdir(&writer, "dir").await;
        for round in 0..50_u8 {
            let size = 1 + usize::from(round) * 331 % 20_000;
            write(&writer, &file, 0, &vec![round; size], Stable::Unstable).await.unwrap();
            let found = read(&reader, &file, 0, 20_000).await.unwrap();
            assert!(found.data[..size].iter().all(|byte| *byte == round), "{round}");
            let attributes = lookup(&reader, "file").await.unwrap().attributes;
            assert_eq!(attributes.size, found.data.len() as u64);
            // There and back, each seen by both.
            for (from, to) in [("file", "dir/moved"), ("dir/moved", "file")] {
                rename(&writer, from, to).await;
                assert_eq!(lookup(&reader, from).await.unwrap_err().name(), "NFS3ERR_NOENT");
                assert_eq!(lookup(&reader, to).await.unwrap().attributes.size, attributes.size);
            }
        }
    }
}

async fn rename(clerk: &Clerk, from: &str, to: &str) {
    let split = async |path: &str| match path.rsplit_once('/') {
        Some((dir, name)) => (Some(lookup(clerk, dir).await.unwrap().handle), name.to_owned()),
        None => (None, path.to_owned()),
    };
    let ((from_dir, from_name), (to_dir, to_name)) = (split(from).await, split(to).await);
    clerk.rename(catena_files::RenameParams { from_dir, from_name, to_dir, to_name }).await.unwrap();
}
