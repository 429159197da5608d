//! The file service when something goes wrong: files that others change, caches that are full, clerks and servers that die, clerks that lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use catena::{Client, Node, Place};
use catena_dfs::{Clerk, Way, limits::Measures};
use catena_files::testing::{create, lookup, read, write};
use catena_files::{FileError, FileService, Handle, ReadParams, Stable};
use common::{RESTARTED, bridge, clerk, serve, start, start_clerk, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_change_in_the_directory_is_seen_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 50_000]).unwrap();
    let server = serve(folder.path(), |_| {}).await;
    let clerk = clerk(server.address(), Way::Data).await;
    let file = lookup(&clerk, "file").await.unwrap().handle;
    assert_eq!(read(&clerk, &file, 0, 50_000).await.unwrap().data.len(), 50_000);
    // It shrinks while it is read: whoever reads gets bytes that were there, and its end where it was.
    std::fs::write(&path, vec![2; 10_000]).unwrap();
    until("the shorter file", async || {
        let found = read(&clerk, &file, 0, 50_000).await.unwrap();
        assert!(found.data.iter().all(|byte| [1, 2].contains(byte)));
        found.data.as_slice() == vec![2; 10_000]
    })
    .await;
    let beyond = read(&clerk, &file, 20_000, 10).await.unwrap();
    assert!(beyond.data.is_empty() && beyond.eof);
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    until("the name is gone", async || lookup(&clerk, "file").await.is_err_and(|why| why.name() == "NFS3ERR_NOENT"))
        .await;
    assert!(lookup(&clerk, "moved").await.is_ok());
    std::fs::remove_file(folder.path().join("moved")).unwrap();
    until("the handle is stale", async || {
        read(&clerk, &file, 0, 10).await.is_err_and(|why| why.name() == "NFS3ERR_STALE")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_caches_serve_as_well_and_only_slower() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..200_u8 {
        std::fs::write(folder.path().join(format!("{number}")), vec![number; 9_000]).unwrap();
    }
    let mut measures = Measures::default();
    for shape in [&mut measures.data, &mut measures.names, &mut measures.attributes, &mut measures.entries] {
        shape.slots = 8;
    }
    let server = serve(folder.path(), |config| config.measures = measures).await;
    let clerk = clerk(server.address(), Way::Data).await;
    for number in (0..200_u8).chain(0..200) {
        let file = lookup(&clerk, &number.to_string()).await.unwrap().handle;
        assert_eq!(read(&clerk, &file, 0, 10_000).await.unwrap().data.as_slice(), vec![number; 9_000]);
    }
    assert!(server.cached().into_iter().all(|entries| entries <= 8), "{:?}", server.cached());
}

/// Of files beyond those that the server can remember, another makes room for each: it is cached as they were, and nothing stays of one that nobody looks after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_files_than_the_server_remembers_are_cached_each_for_a_while() {
    const REMEMBERED: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    for number in 0..50_u8 {
        std::fs::write(folder.path().join(format!("{number}")), vec![number; 100]).unwrap();
    }
    let server = serve(folder.path(), |config| config.known_files_max = REMEMBERED).await;
    let clerk = clerk(server.address(), Way::Data).await;
    for number in 0..50_u8 {
        let once = async || {
            let file = lookup(&clerk, &number.to_string()).await.unwrap().handle;
            assert_eq!(read(&clerk, &file, 0, 100).await.unwrap().data.as_slice(), vec![number; 100]);
        };
        // Where others take the processor for longer than a lease, the server is asked again.
        until(&format!("file {number} is cached"), async || {
            let asked = server.asked();
            once().await;
            server.asked() == asked
        })
        .await;
    }
    assert!(server.cached().into_iter().all(|entries| entries <= REMEMBERED), "{:?}", server.cached());
}

/// Handles of any bytes, of another's file system, of files that are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), |_| {}).await;
    let clerk = clerk(server.address(), Way::Data).await;
    let file = create(&clerk, "file").await.handle;
    for bytes in [vec![], vec![0xff; 10], vec![0xc1; 25], vec![0xc1; 2_000]] {
        let handle = Handle(serde_bytes::ByteBuf::from(bytes));
        let name = clerk.read(ReadParams { handle, offset: 0, count: 1 }).await.unwrap_err().name();
        assert!(["NFS3ERR_BADHANDLE", "NFS3ERR_STALE"].contains(&name), "{name}");
    }
    let mut out = file.0.to_vec();
    out.truncate(25);
    out.extend_from_slice(b"../file");
    let handle = Handle(serde_bytes::ByteBuf::from(out));
    let name = clerk.read(ReadParams { handle, offset: 0, count: 1 }).await.unwrap_err().name();
    assert_eq!(name, "NFS3ERR_BADHANDLE");
}

/// Who says hello with another's segment, or with none, gets no lanes; who asks with bytes that are no request gets a refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_that_lies_is_refused_and_hurts_nobody() {
    #[derive(serde::Serialize)]
    struct Hello {
        clerk: u64,
        answers: String,
    }
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), |_| {}).await;
    let honest = clerk(server.address(), Way::Data).await;
    let liar = Node::builder("liar").listen("127.0.0.1:0").join(Place::new(server.address())).start().await.unwrap();
    let short =
        liar.export("short", 8, catena::Export { anyone: catena::Rights::ALL, ..catena::Export::default() }).unwrap();
    let client: Client = liar.client();
    for (number, answers) in
        [(liar.id().0, "liar/short"), (7, "liar/short"), (7, "nobody/none"), (liar.id().0, "dfs/dfs.data")]
    {
        let hello = Hello { clerk: number, answers: answers.to_owned() };
        assert!(client.call::<_, serde_json::Value>("dfs", "hello", &hello).await.is_err(), "{answers}");
    }
    drop(short);
    assert!(client.call::<_, serde_json::Value>("dfs", "perform", &"nonsense").await.is_err());
    // The tables can be read by all, and written by none; another's lanes are not there.
    let far = client.import("dfs/dfs.data").await.unwrap();
    let written = async {
        far.write(0, vec![0; 64]).await?;
        far.flush().await
    };
    assert_eq!(written.await.unwrap_err().name, "NoRight");
    assert_eq!(client.import("dfs/dfs.requests.0").await.unwrap_err().name, "UnknownSegment");
    assert_eq!(server.clerks(), 1);
    create(&honest, "still served").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_that_goes_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), |_| {}).await;
    let stays = clerk(server.address(), Way::Data).await;
    let goes = clerk(server.address(), Way::Hybrid).await;
    create(&goes, "made").await;
    assert_eq!(server.clerks(), 2);
    drop(goes);
    until("the clerk's place is free", async || server.clerks() == 1).await;
    assert!(lookup(&stays, "made").await.is_ok());
}

/// What its client was told of as done is there, the write that was under way may be, and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_that_is_killed_while_it_writes_takes_nothing_with_it() {
    const NUMBERS: usize = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), |_| {}).await;
    let stays = clerk(server.address(), Way::Data).await;
    let file = create(&stays, "file").await.handle;
    let (killed, port) = start_clerk(server.address());
    let client = bridge(port).await;
    let theirs = lookup(&client, "file").await.unwrap().handle;
    assert_eq!(server.clerks(), 2);
    let done = Arc::new(AtomicU64::new(0));
    let acknowledged = Arc::clone(&done);
    let writing = tokio::spawn(async move {
        loop {
            let next = acknowledged.load(Ordering::Acquire) + 1;
            let bytes = next.to_le_bytes().repeat(NUMBERS);
            if let Err(why) = write(&client, &theirs, 0, &bytes, Stable::Unstable).await {
                return why;
            }
            acknowledged.store(next, Ordering::Release);
        }
    });
    until("writes are under way", async || done.load(Ordering::Acquire) > 20).await;
    drop(killed);
    let why = writing.await.unwrap();
    assert!(matches!(why, FileError::OutcomeUnknown { .. } | FileError::Unreachable { .. }), "{why}");
    until("the clerk's place is free", async || server.clerks() == 1).await;
    let found = read(&stays, &file, 0, 8 * NUMBERS as u32).await.unwrap().data;
    assert_eq!(found.len(), 8 * NUMBERS);
    let last = done.load(Ordering::Acquire);
    for number in found.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)) {
        assert!((last..=last + 1).contains(&number), "{number} after {last} was acknowledged");
    }
    // The same file is another's to write: here behind what was under way, which may be done late.
    write(&stays, &file, 8 * NUMBERS as u64, &[7; 1_000], Stable::Unstable).await.unwrap();
    let found = read(&stays, &file, 0, 8 * NUMBERS as u32 + 2_000).await.unwrap().data;
    assert_eq!(found[8 * NUMBERS..], [7; 1_000]);
    create(&stays, "still served").await;
}

/// Killed between look-up and read, started again at the same place: the handle goes on working, nothing that was acknowledged is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address) = start(folder.path(), RESTARTED, &["--no-grace"]);
    let clerk = clerk(&address, Way::Data).await;
    let file = create(&clerk, "file").await.handle;
    write(&clerk, &file, 0, &vec![3; 20_000], Stable::FileSync).await.unwrap();
    assert_eq!(read(&clerk, &file, 0, 8_192).await.unwrap().data.len(), 8_192);
    drop(server);
    let (_server, _) = start(folder.path(), &address, &[]);
    let found = read(&clerk, &file, 0, 20_000).await.unwrap();
    assert_eq!(found.data.as_slice(), vec![3; 20_000]);
    write(&clerk, &file, 20_000, &[4; 10], Stable::Unstable).await.or_else(retried(&clerk, &file).await).unwrap();
    assert_eq!(read(&clerk, &file, 20_000, 100).await.unwrap().data.as_slice(), [4; 10]);
    assert!(clerk.counts().sessions > 1);
}

/// A write that may or may not have been done by the server that was killed: it is said so, and done again it does no harm here.
async fn retried(
    clerk: &Clerk,
    file: &Handle,
) -> impl FnOnce(FileError) -> Result<catena_files::WriteResult, FileError> {
    let again = write(clerk, file, 20_000, &[4; 10], Stable::Unstable).await;
    move |why| match why {
        FileError::OutcomeUnknown { .. } => again,
        why => Err(why),
    }
}
