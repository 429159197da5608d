//! The file service when something goes wrong: files that others change, caches that are full, clerks and servers that die, clerks that lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{Client, Node, Place};
use catena_bridge_nfs::{NfsBridge, NfsConfig};
use catena_dfs::{Clerk, ClerkConfig, Server, ServerConfig, Way, limits::Measures};
use catena_files::testing::{create, lookup, read, write};
use catena_files::{FileError, FileService, Handle, ReadParams, Stable};

async fn serve(root: &Path, config: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut chosen = ServerConfig { grace: Duration::ZERO, ..ServerConfig::new(root) };
    config(&mut chosen);
    Server::start(chosen).await.unwrap()
}

async fn clerk(address: &str, way: Way) -> Clerk {
    Clerk::connect(ClerkConfig { way, ..ClerkConfig::new(address) }).await.unwrap()
}

/// Waits until something is so.
async fn until<F: Future<Output = bool>>(what: &str, is: impl Fn() -> F) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: not within a minute"));
}

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

/// A server or clerk that is another process, so that it can be killed.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program, and gives what follows these words in its first line.
fn started(arguments: &[&str], says: &str) -> (Process, String) {
    use std::io::BufRead;
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfs"));
    let mut process = Process(command.args(arguments).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    // Its pipe stays open: who prints into one that is closed ends.
    std::io::BufReader::new(process.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let rest = line.trim().strip_prefix(says).unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (process, rest)
}

fn start(root: &Path, listen: &str, grace: bool) -> (Process, String) {
    let mut arguments = vec!["serve", root.to_str().unwrap(), "--listen", listen];
    if !grace {
        arguments.push("--no-grace");
    }
    started(&arguments, "serving at ")
}

/// What its client was told of as done is there, the write that was under way may be, and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_that_is_killed_while_it_writes_takes_nothing_with_it() {
    const NUMBERS: usize = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), |_| {}).await;
    let stays = clerk(server.address(), Way::Data).await;
    let file = create(&stays, "file").await.handle;
    let (killed, ports) = started(&["clerk", server.address(), "--port", "0"], "NFSv3 at 127.0.0.1, port ");
    let port = ports.split(' ').next().and_then(|port| port.parse().ok());
    let config = NfsConfig { nfs_port: port, mount_port: port, ..NfsConfig::new("127.0.0.1", "/") };
    let client = NfsBridge::connect(config).await.unwrap();
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
    create(&stays, "still served").await;
}

/// Killed between look-up and read, started again at the same place: the handle goes on working, nothing that was acknowledged is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address) = start(folder.path(), "127.0.0.1:0", false);
    let clerk = clerk(&address, Way::Data).await;
    let file = create(&clerk, "file").await.handle;
    write(&clerk, &file, 0, &vec![3; 20_000], Stable::FileSync).await.unwrap();
    assert_eq!(read(&clerk, &file, 0, 8_192).await.unwrap().data.len(), 8_192);
    drop(server);
    let (_server, _) = start(folder.path(), &address, true);
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

/// Each file has one writer, who writes rising numbers all over it; readers by READs must never see a number that is below one that was acknowledged before they
/// began, nor one that was not begun: with clerks that die under way, and a server that is killed and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_clerks_see_what_was_acknowledged_through_a_crash_of_the_server() {
    const FILES: usize = 3;
    const NUMBERS: usize = 2_500;
    let folder = tempfile::tempdir().unwrap();
    let (server, address) = start(folder.path(), "127.0.0.1:0", false);
    let setup = clerk(&address, Way::Call).await;
    let mut files = Vec::new();
    for number in 0..FILES {
        let file = create(&setup, &number.to_string()).await.handle;
        write(&setup, &file, 0, &vec![0; NUMBERS * 8], Stable::Unstable).await.unwrap();
        files.push((file, Arc::new([AtomicU64::new(0), AtomicU64::new(0)])));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for (at, (file, state)) in files.iter().enumerate() {
        let (file, state, stop, address) = (file.clone(), Arc::clone(state), Arc::clone(&stop), address.clone());
        tasks.push(tokio::spawn(async move {
            let mut writer = clerk(&address, [Way::Data, Way::Hybrid, Way::Call][at]).await;
            let mut round = 0_u64;
            while !stop.load(Ordering::Acquire) {
                round += 1;
                if round.is_multiple_of(40) {
                    writer = clerk(&address, writer.way()).await;
                }
                state[1].store(round, Ordering::Release);
                let bytes: Vec<u8> = (0..NUMBERS).flat_map(|_| round.to_le_bytes()).collect();
                // What may have been done is done again: the same number.
                while let Err(why) = write(&writer, &file, 0, &bytes, Stable::Unstable).await {
                    assert!(matches!(why, FileError::OutcomeUnknown { .. } | FileError::Unreachable { .. }), "{why}");
                }
                state[0].store(round, Ordering::Release);
            }
            round
        }));
    }
    let reads = Arc::new(AtomicU64::new(0));
    for _ in 0..2 {
        let (files, stop, address, reads) = (files.clone(), Arc::clone(&stop), address.clone(), Arc::clone(&reads));
        tasks.push(tokio::spawn(async move {
            let reader = clerk(&address, Way::Data).await;
            let mut count = 0_u64;
            while !stop.load(Ordering::Acquire) {
                let (file, state) = &files[count as usize % FILES];
                let acknowledged = state[0].load(Ordering::Acquire);
                let found = read(&reader, file, 0, (NUMBERS * 8) as u32).await.unwrap();
                let begun = state[1].load(Ordering::Acquire);
                assert_eq!(found.data.len(), NUMBERS * 8);
                for number in found.data.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)) {
                    assert!(
                        (acknowledged..=begun).contains(&number),
                        "{number} is not within {acknowledged}..={begun}"
                    );
                }
                count += 1;
                reads.fetch_add(1, Ordering::Relaxed);
            }
            count
        }));
    }
    let enough = async |more: u64| {
        let from = reads.load(Ordering::Relaxed);
        until("reads go on", async || reads.load(Ordering::Relaxed) >= from + more).await;
    };
    enough(100).await;
    drop(server);
    let (_server, _) = start(folder.path(), &address, true);
    enough(100).await;
    stop.store(true, Ordering::Release);
    for task in tasks {
        assert!(task.await.unwrap() > 0);
    }
}
