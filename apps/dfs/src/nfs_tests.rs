#![allow(clippy::unwrap_used)]
use std::time::Duration;

use super::*;
use crate::{ClerkConfig, Server, ServerConfig};

/// A door to a server that remembers so many files, a directory `a/sub` through it, and both after another clerk has moved `a` to `b` and made a new `a/sub`.
async fn moved(known_files_max: usize) -> (tempfile::TempDir, Server, Door, FileId, FileId) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("a/sub")).unwrap();
    let config = ServerConfig { known_files_max, grace: Duration::ZERO, ..ServerConfig::new(folder.path()) };
    let server = Server::start(config).await.unwrap();
    let clerk = async || Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
    let (clerk, other) = (clerk().await, clerk().await);
    let root = clerk.root(RootParams {}).await.unwrap().handle;
    let door = Door {
        clerk,
        only: None,
        root: id_of(&root).unwrap(),
        handles: Mutex::default(),
        uncommitted: Mutex::default(),
    };
    door.remember(&root);
    let a = door.lookup(&door.root, &b"a".as_slice().into()).await.unwrap();
    let sub = door.lookup(&a, &b"sub".as_slice().into()).await.unwrap();
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
    assert_eq!(door.lookup(&sub, &b"..".as_slice().into()).await, Ok(a));
    assert_eq!(door.lookup(&a, &b"..".as_slice().into()).await, Ok(door.root));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_which_nobody_knows_where_it_is_has_none_above() {
    let (_folder, _server, door, _, sub) = moved(1).await;
    assert_eq!(door.lookup(&sub, &b"..".as_slice().into()).await, Err(nfsstat3::NFS3ERR_STALE));
}
