#![allow(clippy::unwrap_used)]
use std::time::Duration;

use super::*;
use crate::{ClerkConfig, Server, ServerConfig};

async fn serve(folder: &tempfile::TempDir, known_files_max: usize) -> Server {
    let config = ServerConfig { known_files_max, grace: Duration::ZERO, ..ServerConfig::new(folder.path()) };
    Server::start(config).await.unwrap()
}

async fn clerk(server: &Server) -> Clerk {
    Clerk::connect(ClerkConfig::new(server.address())).await.unwrap()
}

async fn door(clerk: Clerk) -> Door {
    let root = clerk.root(RootParams {}).await.unwrap().handle;
    Door::new(clerk, None, &root).unwrap()
}

/// A door to an empty directory.
pub(crate) async fn opened() -> (tempfile::TempDir, Server, Door) {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder, 100).await;
    let door = door(clerk(&server).await).await;
    (folder, server, door)
}

fn name(of: &'static str) -> filename3<'static> {
    of.as_bytes().into()
}

/// A door to a server that remembers so many files, a directory `a/sub` through it, and both after another clerk has moved `a` to `b` and made a new `a/sub`.
async fn moved(known_files_max: usize) -> (tempfile::TempDir, Server, Door, FileId, FileId) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("a/sub")).unwrap();
    let server = serve(&folder, known_files_max).await;
    let (door, other) = (door(clerk(&server).await).await, clerk(&server).await);
    let a = door.lookup(&door.root, &name("a")).await.unwrap();
    let sub = door.lookup(&a, &name("sub")).await.unwrap();
    let (from_name, to_name) = ("a".to_owned(), "b".to_owned());
    other.rename(RenameParams { from_dir: None, from_name, to_dir: None, to_name }).await.unwrap();
    for path in ["a", "a/sub"] {
        other.mkdir(MkdirParams { path: Some(path.to_owned()), ..MkdirParams::default() }).await.unwrap();
    }
    (folder, server, door, a, sub)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directory_above_is_the_one_in_which_this_one_is_by_now() {
    let (_folder, _server, door, a, sub) = moved(100).await;
    assert_eq!(door.lookup(&sub, &name("..")).await, Ok(a));
    assert_eq!(door.lookup(&a, &name("..")).await, Ok(door.root));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_which_nobody_knows_where_it_is_has_none_above() {
    let (_folder, _server, door, _, sub) = moved(1).await;
    assert_eq!(door.lookup(&sub, &name("..")).await, Err(nfsstat3::NFS3ERR_STALE));
}

async fn found(clerk: &Clerk, path: &str) -> Result<Attributes, &'static str> {
    let params = LookupParams { path: Some(path.to_owned()), ..LookupParams::default() };
    clerk.lookup(params).await.map(|entry| entry.attributes).map_err(|why| why.name())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_that_an_nfs_client_sets_are_seen_by_another_clerk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "0123456789").unwrap();
    let server = serve(&folder, 100).await;
    let (door, other) = (door(clerk(&server).await).await, clerk(&server).await);
    let file = door.lookup(&door.root, &name("file")).await.unwrap();
    let before = found(&other, "file").await.unwrap();
    let none = sattr3::default();
    let at = nfstime3 { seconds: 1_000_000, nseconds: 7_000_000 };
    let owner = (Nfs3Option::Some(before.uid), Nfs3Option::Some(before.gid));
    for (set, wanted) in [
        (sattr3 { mode: Nfs3Option::Some(0o100_640), ..none.clone() }, (0o640, 10, before.modified_at_ms)),
        (sattr3 { mtime: set_mtime::SET_TO_CLIENT_TIME(at), ..none.clone() }, (0o640, 10, 1_000_000_007)),
        (sattr3 { uid: owner.0, gid: owner.1, ..none.clone() }, (0o640, 10, 1_000_000_007)),
    ] {
        let told = door.setattr(&file, set).await.unwrap();
        let seen = found(&other, "file").await.unwrap();
        assert_eq!((told.mode, told.size, told.mtime), (wanted.0, wanted.1, time(wanted.2)));
        assert_eq!((seen.mode, seen.size, seen.modified_at_ms), wanted);
    }
    let cut = sattr3 { size: Nfs3Option::Some(4), mtime: set_mtime::SET_TO_SERVER_TIME, ..none.clone() };
    assert_eq!(door.setattr(&file, cut).await.unwrap().size, 4);
    let seen = found(&other, "file").await.unwrap();
    assert!(seen.size == 4 && seen.modified_at_ms >= before.modified_at_ms, "{seen:?}");
    assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"0123");
    let another = sattr3 { uid: Nfs3Option::Some(before.uid + 1), size: Nfs3Option::Some(0), ..none };
    assert_eq!(door.setattr(&file, another).await.unwrap_err(), nfsstat3::NFS3ERR_PERM);
    assert_eq!(found(&other, "file").await.unwrap().size, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_that_an_nfs_client_makes_moves_and_removes_are_so_for_another_clerk() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder, 100).await;
    let (door, other) = (door(clerk(&server).await).await, clerk(&server).await);
    let root = door.root;
    let (dir, _) = door.mkdir(&root, &name("dir")).await.unwrap();
    door.create(&dir, &name("file"), sattr3::default()).await.unwrap();
    assert_eq!(found(&other, "dir/file").await.unwrap().kind, Kind::File);
    assert_eq!(door.remove(&root, &name("dir")).await, Err(nfsstat3::NFS3ERR_NOTEMPTY));
    door.rename(&root, &name("dir"), &root, &name("moved")).await.unwrap();
    assert_eq!(found(&other, "dir/file").await, Err("NFS3ERR_NOENT"));
    assert_eq!(found(&other, "moved/file").await.unwrap().kind, Kind::File);
    door.remove(&dir, &name("file")).await.unwrap();
    assert_eq!(found(&other, "moved/file").await, Err("NFS3ERR_NOENT"));
    door.remove(&root, &name("moved")).await.unwrap();
    assert_eq!(found(&other, "moved").await, Err("NFS3ERR_NOENT"));
    assert_eq!(door.getattr(&dir).await.unwrap_err(), nfsstat3::NFS3ERR_STALE);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

/// When no more files with uncommitted writes can be remembered, writes to other files are committed at once; writes to remembered files go on as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_to_more_files_than_can_await_a_commit_are_done_as_if_committed() {
    let (folder, _server, door) = opened().await;
    let [(remembered, _), (further, _)] = [
        door.create(&door.root, &name("remembered"), sattr3::default()).await.unwrap(),
        door.create(&door.root, &name("further"), sattr3::default()).await.unwrap(),
    ];
    let written = async |file: &FileId, data: &[u8]| {
        door.write(file, 0, data, stable_how::UNSTABLE).await.map(|(of, how)| (of.size, how))
    };
    assert_eq!(written(&remembered, b"one").await, Ok((3, stable_how::UNSTABLE)));
    let mut forged = (0_u64..).map(|number| {
        let mut id = [0xff; IDENTITY_BYTES];
        id[..8].copy_from_slice(&number.to_le_bytes());
        FileId(id)
    });
    while lock(&door.uncommitted).len() < UNCOMMITTED_MAX {
        lock(&door.uncommitted).insert(forged.next().unwrap(), Verifier(ByteBuf::from([0; 8])));
    }
    assert_eq!(written(&further, b"three").await, Ok((5, stable_how::FILE_SYNC)));
    assert_eq!(written(&remembered, b"four").await, Ok((4, stable_how::UNSTABLE)));
    assert_eq!(lock(&door.uncommitted).len(), UNCOMMITTED_MAX);
    assert_eq!(std::fs::read(folder.path().join("further")).unwrap(), b"three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_removed_awaits_no_commit_unless_it_has_another_name() {
    let (folder, _server, door) = opened().await;
    for linked in [false, true] {
        let (file, _) = door.create(&door.root, &name("file"), sattr3::default()).await.unwrap();
        if linked {
            std::fs::hard_link(folder.path().join("file"), folder.path().join("link")).unwrap();
        }
        door.write(&file, 0, b"written", stable_how::UNSTABLE).await.unwrap();
        assert!(lock(&door.uncommitted).contains_key(&file));
        door.remove(&door.root, &name("file")).await.unwrap();
        assert_eq!(lock(&door.uncommitted).contains_key(&file), linked);
    }
}

/// The handle of a file that does not exist.
fn forged(number: usize) -> Handle {
    let mut identity = [0xff; IDENTITY_BYTES];
    identity[..8].copy_from_slice(&number.to_le_bytes());
    Handle(ByteBuf::from([&[0xC1][..], &identity, b"forged"].concat()))
}

/// When the table of handles is full, the older half is forgotten. A client with a forgotten handle goes on if the server knows the file; else it is told that
/// the handle is stale, and finds the file by its name. Other clients notice nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_whose_handles_are_forgotten_are_asked_for_or_stale_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    // The server remembers only one file, so looking up another replaces it.
    let server = serve(&folder, 1).await;
    let door = door(clerk(&server).await).await;
    for name in ["known", "unknown", "recent"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let unknown = door.lookup(&door.root, &name("unknown")).await.unwrap();
    let known = door.lookup(&door.root, &name("known")).await.unwrap();
    for number in 0..HANDLES_MAX {
        door.remember(&forged(number));
        assert!(lock(&door.handles).known.len() <= HANDLES_MAX);
    }
    let remembered = |id: &FileId| lock(&door.handles).known.contains_key(id);
    assert_eq!([door.root, known, unknown].map(|id| remembered(&id)), [true, false, false]);
    let size = async |id: &FileId| door.getattr(id).await.map(|of| of.size);
    assert_eq!((size(&known).await, size(&unknown).await), (Ok(5), Err(nfsstat3::NFS3ERR_STALE)));
    let again = door.lookup(&door.root, &name("unknown")).await.unwrap();
    assert_eq!((again, size(&unknown).await), (unknown, Ok(7)));
    assert_eq!(size(&door.lookup(&door.root, &name("recent")).await.unwrap()).await, Ok(6));
}
