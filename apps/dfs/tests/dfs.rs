//! The file service with real nodes: in each of its three ways, over TCP and in shared memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{os::unix::fs::MetadataExt, path::Path, process::Command, time::Duration};

use catena::{Client, Place};
use catena_dfs::{Clerk, Server, Way};
use catena_files::testing::{conformance, create, lookup, mkdir, read, write};
use catena_files::{Change, FileService, GetattrParams, Handle, RemoveParams, Stable};
use common::{start, until};
use tempfile::TempDir;

const WAYS: [Way; 3] = [Way::Data, Way::Hybrid, Way::Call];

async fn serve(folder: &TempDir, shared_memory: bool) -> Server {
    common::serve(folder.path(), |config| config.shared_memory = shared_memory).await
}

async fn clerk(server: &Server, way: Way) -> Clerk {
    common::clerk(server.address(), way).await
}

/// Does something with a clerk of each way, over TCP and in shared memory, while clerks of all ways look on.
async fn by_every_way(does: impl AsyncFn(&Path, &Clerk, &[Clerk])) {
    for (way, shared_memory) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(&folder, shared_memory).await;
        let mut others = Vec::new();
        for way in WAYS {
            others.push(clerk(&server, way).await);
        }
        does(folder.path(), &clerk(&server, way).await, &others).await;
    }
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
        // Where others take the processor for longer than a lease, the server is asked again.
        until("no control went to the server for what is cached", async || {
            let (before, control) = (clerk.counts(), server.asked());
            all().await;
            server.asked() == control && clerk.counts().hits > before.hits + 15
        })
        .await;
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

/// How a file is to look.
struct Look {
    mode: u32,
    data: Vec<u8>,
    modified_at_ms: Option<u64>,
}

impl Look {
    /// By its handle, by its name, and by its bytes: whatever of it was cached.
    async fn check(&self, clerk: &Clerk, file: &Handle, what: Change) {
        let by_handle = clerk.getattr(GetattrParams { handle: file.clone() }).await.unwrap();
        let by_name = lookup(clerk, "dir/file").await.unwrap().attributes;
        for seen in [by_handle, by_name] {
            let at = (seen.mode, seen.size, self.modified_at_ms.map(|_| seen.modified_at_ms));
            assert_eq!(at, (self.mode, self.data.len() as u64, self.modified_at_ms), "{:?} {what:?}", clerk.way());
        }
        let found = read(clerk, file, 0, 50_000).await.unwrap();
        assert!(found.eof && found.data.as_slice() == self.data, "{:?} {what:?}", clerk.way());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_that_one_clerk_sets_are_seen_by_all_by_every_way() {
    const AT_MS: u64 = 1_234_567_890_123;
    by_every_way(async |folder, writer, readers| {
        mkdir(writer, "dir").await;
        let file = create(writer, "dir/file").await.handle;
        write(writer, &file, 0, &[7; 20_000], Stable::Unstable).await.unwrap();
        let none = Change::default();
        let mode = Change { mode: Some(0o640), ..none };
        let cut = Change { size: Some(9_000), ..none };
        let longer = Change { size: Some(30_000), ..none };
        let times = Change { modified_at_ns: Some(AT_MS * 1_000_000), accessed_at_ns: Some(7_000_000_000), ..none };
        let all = Change { mode: Some(0o600), size: Some(10), ..times };
        let mut look =
            Look { mode: writer.setattr(&file, none).await.unwrap().mode, data: vec![7; 20_000], modified_at_ms: None };
        for change in [mode, cut, longer, times, all] {
            for reader in readers {
                // So that it has something to see anew.
                lookup(reader, "dir/file").await.unwrap();
                read(reader, &file, 0, 50_000).await.unwrap();
            }
            look.mode = change.mode.unwrap_or(look.mode);
            look.data.resize(change.size.map_or(look.data.len(), |size| size as usize), 0);
            look.modified_at_ms = change.modified_at_ns.map(|_| AT_MS);
            let told = writer.setattr(&file, change).await.unwrap();
            assert_eq!((told.mode, told.size), (look.mode, look.data.len() as u64));
            if change.accessed_at_ns.is_some() {
                assert_eq!((told.accessed_at_ms, told.modified_at_ms), (7_000, AT_MS));
            }
            for reader in readers {
                look.check(reader, &file, change).await;
            }
            let there = std::fs::metadata(folder.join("dir/file")).unwrap();
            assert_eq!((there.mode() & 0o7777, there.size()), (look.mode, look.data.len() as u64));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_that_cannot_be_set_are_refused_by_every_way_and_stay() {
    by_every_way(async |folder, writer, readers| {
        let (dir, file, gone) =
            (mkdir(writer, "dir").await, create(writer, "file").await, create(writer, "gone").await);
        writer.remove(RemoveParams { name: Some("gone".to_owned()), ..RemoveParams::default() }).await.unwrap();
        let none = Change::default();
        for (handle, change, wanted) in [
            (&file.handle, Change { mode: Some(0o4755), ..none }, "NFS3ERR_INVAL"),
            (&file.handle, Change { size: Some(u64::MAX), mode: Some(0o600), ..none }, "NFS3ERR_FBIG"),
            (&dir.handle, Change { size: Some(0), ..none }, "NFS3ERR_ISDIR"),
            (&gone.handle, Change { mode: Some(0o600), ..none }, "NFS3ERR_STALE"),
        ] {
            assert_eq!(writer.setattr(handle, change).await.unwrap_err().name(), wanted, "{change:?}");
        }
        for reader in readers {
            assert_eq!(lookup(reader, "file").await.unwrap().attributes.mode, file.attributes.mode);
        }
        assert_eq!(std::fs::metadata(folder.join("file")).unwrap().mode() & 0o7777, file.attributes.mode);
    })
    .await;
}

async fn rmdir(clerk: &Clerk, path: &str) -> Result<(), &'static str> {
    let (dir, name) = match path.rsplit_once('/') {
        Some((dir, name)) => (Some(lookup(clerk, dir).await.unwrap().handle), name),
        None => (None, path),
    };
    clerk.rmdir(dir, name).await.map_err(|why| why.name())
}

async fn remove(clerk: &Clerk, path: &str) {
    clerk.remove(RemoveParams { path: Some(path.to_owned()), ..RemoveParams::default() }).await.unwrap();
}

/// Looks for each of these paths, in the directory itself and by every clerk: only those that are said to be there are.
async fn there_are(folder: &Path, clerks: &[Clerk], there: &[&str]) {
    const ALL: [&str; 5] = ["dir", "dir/sub", "dir/file", "dir/sub/moved", "file"];
    for path in ALL {
        assert_eq!(folder.join(path).exists(), there.contains(&path), "{path}");
        for clerk in clerks {
            let found = lookup(clerk, path).await.map(drop).map_err(|why| why.name());
            let wanted = if there.contains(&path) { Ok(()) } else { Err("NFS3ERR_NOENT") };
            assert_eq!(found, wanted, "{:?} {path}", clerk.way());
        }
    }
    for clerk in clerks {
        let listed = clerk.readdir(Default::default()).await.unwrap().entries;
        let wanted = there.iter().filter(|path| !path.contains('/')).count();
        assert_eq!(listed.len(), wanted, "{:?} {listed:?}", clerk.way());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_one_clerk_makes_moves_and_removes_are_so_for_all_by_every_way() {
    by_every_way(async |folder, writer, readers| {
        let there = async |names: &[&str]| there_are(folder, readers, names).await;
        there(&[]).await;
        let dir = mkdir(writer, "dir").await.handle;
        let sub = mkdir(writer, "dir/sub").await.handle;
        there(&["dir", "dir/sub"]).await;
        create(writer, "file").await;
        there(&["dir", "dir/sub", "file"]).await;
        assert_eq!(rmdir(writer, "file").await, Err("NFS3ERR_NOTDIR"));
        rename(writer, "file", "dir/sub/moved").await;
        there(&["dir", "dir/sub", "dir/sub/moved"]).await;
        assert_eq!(rmdir(writer, "dir/sub").await, Err("NFS3ERR_NOTEMPTY"));
        there(&["dir", "dir/sub", "dir/sub/moved"]).await;
        remove(writer, "dir/sub/moved").await;
        there(&["dir", "dir/sub"]).await;
        assert_eq!(rmdir(writer, "dir/sub").await, Ok(()));
        there(&["dir"]).await;
        assert_eq!(rmdir(writer, "dir/sub").await, Err("NFS3ERR_NOENT"));
        assert_eq!(rmdir(writer, "..").await, Err("NFS3ERR_INVAL"));
        for reader in readers {
            let gone = reader.getattr(GetattrParams { handle: sub.clone() }).await.unwrap_err().name();
            assert_eq!(gone, "NFS3ERR_STALE", "{:?}", reader.way());
            let above = reader.getattr(GetattrParams { handle: dir.clone() }).await.unwrap();
            assert_eq!(u64::from(above.links), std::fs::metadata(folder.join("dir")).unwrap().nlink());
        }
        assert_eq!(rmdir(writer, "dir").await, Ok(()));
        there(&[]).await;
    })
    .await;
}

/// Bytes of the file system that holds a folder, by what the system's own command says.
fn file_system_bytes(folder: &Path) -> u64 {
    let said = Command::new("stat").args(["--file-system", "--format", "%S %b"]).arg(folder).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    said.split_whitespace().map(|number| number.parse::<u64>().unwrap()).product()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_the_file_system_is_told_by_every_way_and_read_from_the_table() {
    by_every_way(async |folder, clerk, _| {
        let state = clerk.statfs().await.unwrap();
        assert_eq!(state.total_bytes, file_system_bytes(folder));
        assert!(state.total_bytes >= state.free_bytes && state.free_bytes >= state.available_bytes, "{state:?}");
        assert!(state.available_bytes > 0 && state.total_files >= state.free_files, "{state:?}");
        let asks = async |hits: u64, asked: u64| {
            let before = clerk.counts();
            assert_eq!(clerk.statfs().await.unwrap().total_bytes, state.total_bytes);
            let after = clerk.counts();
            (after.hits - before.hits, after.asked - before.asked) == (hits, asked)
        };
        if clerk.way() == Way::Data {
            // It is taken out of the table each second, so that it is told anew.
            until("it is read from the table", async || asks(1, 0).await).await;
            until("the server is asked for it anew", async || asks(0, 1).await).await;
        } else {
            assert!(asks(0, 1).await);
        }
    })
    .await;
}

/// Whoever is told of the server is told that address, whichever it dialled itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_reached_elsewhere_than_it_listens_tells_clerks_where() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--advertise", "127.0.0.2:0", "--no-grace"];
    let (_server, address) = start(folder.path(), "0.0.0.0:0", &options);
    let (host, port) = address.split_once(':').unwrap();
    assert!(host == "127.0.0.2" && port != "0", "{address}");
    let clerk = common::clerk(&address, Way::Data).await;
    let file = create(&clerk, "file").await.handle;
    write(&clerk, &file, 0, b"served", Stable::Unstable).await.unwrap();
    assert_eq!(read(&clerk, &file, 0, 10).await.unwrap().data.as_slice(), b"served");
    let elsewhere = Place::new(format!("127.0.0.1:{port}"));
    let client = Client::builder("client").join(elsewhere).connect().await.unwrap();
    let entry = client.services().await.into_iter().find(|entry| entry.service == "dfs").expect("the service");
    assert_eq!(entry.node.address, Some(address));
}

#[tokio::test]
async fn a_server_on_all_addresses_starts_only_if_it_knows_which_one_to_tell() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_dfs"));
    command.arg("serve").arg(folder.path()).args(["--listen", "0.0.0.0:0"]).kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_secs(60), command.output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("`advertise`"), "{}: {said}", ended.status);
}
