//! The clerk as an NFS server: real NFS clients, libnfs's utilities and our own bridge.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use catena_bridge_nfs::{ConnectError, Credentials, NfsBridge, NfsConfig};
use catena_dfs::{Callers, Clerk, ClerkConfig, NfsDoor, Server, ServerConfig};
use catena_files::testing::{Gaps, conformance_but, create, lookup, mkdir, read, write};
use catena_files::{
    CommitParams, CreateParams, FileService, GetattrParams, Handle, Kind, LookupParams, RemoveParams, RenameParams,
    RootParams, Stable,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

struct Served {
    folder: TempDir,
    server: Server,
    clerk: Clerk,
    door: NfsDoor,
}

async fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let config = ServerConfig { grace: Duration::ZERO, ..ServerConfig::new(folder.path()) };
    let server = Server::start(config).await.unwrap();
    let clerk = Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
    let door = NfsDoor::open(clerk.clone(), 0).await.unwrap();
    Served { folder, server, clerk, door }
}

async fn bridge(door: &NfsDoor) -> NfsBridge {
    bridge_as(0, door).await.unwrap()
}

/// An NFS client that says that it acts for this user.
async fn bridge_as(uid: u32, door: &NfsDoor) -> Result<NfsBridge, ConnectError> {
    let ports = Some(door.port());
    let credentials = Credentials { uid, ..Credentials::default() };
    let config = NfsConfig { nfs_port: ports, mount_port: ports, credentials, ..NfsConfig::new("127.0.0.1", "/") };
    NfsBridge::connect(config).await
}

async fn utility<A: AsRef<OsStr> + Send + 'static>(name: &'static str, arguments: Vec<A>) -> Output {
    // libnfs tries for ever to reach a server that does not answer.
    let run = move || Command::new("timeout").args(["120", name]).args(&arguments).output();
    let run = tokio::task::spawn_blocking(run);
    run.await.unwrap().unwrap_or_else(|why| panic!("{name} does not run ({why}): tools/bootstrap.sh tests installs it"))
}

fn url(door: &NfsDoor, path: &str) -> String {
    url_at(door.port(), path)
}

fn url_at(port: u16, path: &str) -> String {
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
    let Served { folder, server: _server, clerk: _, door } = serve().await;
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
    // Before a name in the root libnfs has to be given the root to mount.
    good(&utility("nfs-cp", vec![file("mine"), url(&door, "/top")]).await);
    assert_eq!(std::fs::read(folder.path().join("top")).unwrap(), data);
    let none = utility("nfs-cat", vec![url(&door, "dir/none")]).await;
    assert!(!none.status.success());
}

/// Makes one call of NFS for root, from its own connection, and gives its status (RFC 5531, RFC 1813): for what our bridge and libnfs's utilities never ask.
async fn nfs_status(door: &NfsDoor, procedure: u32, arguments: &[u8]) -> u32 {
    const LAST_FRAGMENT: u32 = 1 << 31;
    let credentials = [1, 20, 0, 0, 0, 0, 0];
    let verifier = [0, 0];
    let call = [&[1, 0, 2, 100_003, 3, procedure][..], &credentials, &verifier].concat();
    let call = [xdr_words(&call), arguments.to_vec()].concat();
    let marked = [xdr_words(&[LAST_FRAGMENT | call.len() as u32]), call].concat();
    let mut stream = TcpStream::connect(("127.0.0.1", door.port())).await.unwrap();
    stream.write_all(&marked).await.unwrap();
    stream.read_u32().await.unwrap();
    // Its number, a reply, accepted; a verifier of any kind and no bytes; done.
    for wanted in [Some(1), Some(1), Some(0), None, Some(0), Some(0)] {
        let told = stream.read_u32().await.unwrap();
        assert_eq!(told, wanted.unwrap_or(told));
    }
    stream.read_u32().await.unwrap()
}

fn xdr_words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn xdr_opaque(bytes: &[u8]) -> Vec<u8> {
    let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
    [&xdr_words(&[bytes.len() as u32])[..], bytes, &padding].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_nfs_client_sets_attributes_and_removes_directories_and_another_clerk_sees_it() {
    let ([setattr, rmdir], [ok, no_entry, not_empty]) = ([2, 13], [0, 2, 66]);
    let Served { folder, server, clerk: _, door } = serve().await;
    let (client, other) = (bridge(&door).await, Clerk::connect(ClerkConfig::new(server.address())).await.unwrap());
    let dir = mkdir(&client, "dir").await.handle;
    let file = create(&client, "dir/file").await.handle;
    write(&client, &file, 0, &[7; 20_000], Stable::Unstable).await.unwrap();
    let own = lookup(&other, "dir/file").await.unwrap().handle;
    assert_eq!(read(&other, &own, 0, 30_000).await.unwrap().data.len(), 20_000);
    // The mode and the size; no owner, no group, no times; whenever it last changed.
    let set = [xdr_opaque(&file.0), xdr_words(&[1, 0o640, 0, 0, 1, 0, 9_000, 0, 0, 0])].concat();
    assert_eq!(nfs_status(&door, setattr, &set).await, ok);
    let seen = lookup(&other, "dir/file").await.unwrap().attributes;
    assert_eq!((seen.mode, seen.size), (0o640, 9_000));
    assert_eq!(read(&other, &own, 0, 30_000).await.unwrap().data.as_slice(), [7; 9_000]);
    let root = client.root(RootParams {}).await.unwrap().handle;
    let named = [xdr_opaque(&root.0), xdr_opaque(b"dir")].concat();
    assert_eq!(nfs_status(&door, rmdir, &named).await, not_empty);
    client.remove(RemoveParams { dir: Some(dir), name: Some("file".to_owned()), path: None }).await.unwrap();
    assert_eq!(nfs_status(&door, rmdir, &named).await, ok);
    assert_eq!(lookup(&other, "dir").await.unwrap_err().name(), "NFS3ERR_NOENT");
    assert!(!folder.path().join("dir").exists());
    assert_eq!(nfs_status(&door, rmdir, &named).await, no_entry);
}

/// What `make dfs` runs: server and clerk in one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_in_one_process_serve_a_folder_until_they_are_interrupted() {
    let (folder, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    let data: Vec<u8> = (0..300_000_u32).map(|at| (at / 13) as u8).collect();
    std::fs::write(file("mine"), &data).unwrap();
    std::fs::write(folder.path().join("served"), "as it was").unwrap();
    let (both, port) = common::start_both(folder.path());
    let at = |path: &str| url_at(port, path);
    assert!(good(&utility("nfs-ls", vec![at("")]).await).contains("served"));
    assert_eq!(good(&utility("nfs-cat", vec![at("/served")]).await), "as it was");
    good(&utility("nfs-cp", vec![file("mine"), at("/copied")]).await);
    assert_eq!(std::fs::read(folder.path().join("copied")).unwrap(), data);
    good(&utility("nfs-cp", vec![at("/copied"), file("back")]).await);
    assert_eq!(std::fs::read(file("back")).unwrap(), data);
    let ended = both.interrupted().await;
    assert!(ended.success(), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_names_are_listed_once_each() {
    let Served { folder, server: _server, clerk, door } = serve().await;
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
    let Served { folder, server: _server, clerk: _, door } = serve().await;
    let service = bridge(&door).await;
    let long = "é".repeat(127) + "x";
    let file = create(&service, &long).await.handle;
    assert!(folder.path().join(&long).exists());
    assert_eq!(lookup(&service, &long).await.unwrap().handle, file);
    assert!(read(&service, &file, 0, 10).await.unwrap().eof);
}

/// Any bytes but a slash and a zero, as many as a name may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_255_bytes_of_any_kind_are_listed_and_those_in_utf_8_are_found() {
    use std::collections::BTreeSet;
    let Served { folder, server: _server, clerk, door } = serve().await;
    let every_byte = (1..=255).filter(|byte| *byte != b'/').chain([b'x']).collect();
    let names: BTreeSet<Vec<u8>> = BTreeSet::from([
        b"a".repeat(255),
        b".".repeat(255),
        b"\n".repeat(255),
        b"'\" \\$(reboot)`;*?".repeat(15),
        "\u{e9}\u{202e}\u{1f980}".repeat(28).into_bytes(),
        vec![0xff; 255],
        every_byte,
    ]);
    for name in &names {
        std::fs::write(folder.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let root = clerk.root(RootParams {}).await.unwrap().handle;
    let (mut listed, mut from) = (BTreeSet::new(), 0);
    loop {
        let (page, end) = clerk.list(&root, from).await.unwrap();
        from = page.last().map_or(from, |last| last.next);
        listed.extend(page.into_iter().map(|one| one.name));
        if end {
            break;
        }
    }
    assert_eq!(listed, names);
    let bridge = bridge(&door).await;
    for service in [&clerk as &dyn FileService, &bridge] {
        for name in names.iter().filter_map(|name| std::str::from_utf8(name).ok()) {
            let file = lookup(service, name).await.unwrap_or_else(|why| panic!("{name:?}: {why}")).handle;
            assert_eq!(read(service, &file, 0, 300).await.unwrap().data.as_slice(), name.as_bytes());
        }
        assert_eq!(lookup(service, &"a".repeat(256)).await.unwrap_err().name(), "NFS3ERR_NAMETOOLONG");
    }
    // A real client lists them all, whatever it makes of them.
    good(&utility("nfs-ls", vec![url(&door, "")]).await);
}

/// A name that is not UTF-8 can be neither opened nor made, and whoever tries is told that it is the name that is wrong; nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_not_utf_8_is_refused_clearly_and_hurts_nothing() {
    let Served { folder, server: _server, clerk: _, door } = serve().await;
    let mine = tempfile::NamedTempFile::new().unwrap();
    for name in [vec![0xff; 255], b"caf\xe9".to_vec(), b"\x80".to_vec()] {
        let path = folder.path().join(OsStr::from_bytes(&name));
        let around = url(&door, "/NAME");
        let (before, after) = around.split_once("NAME").unwrap();
        let at = OsString::from_vec([before.as_bytes(), &name, after.as_bytes()].concat());
        let wrong = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            assert!(!output.status.success() && said.contains("NFS3ERR_INVAL"), "{said}");
        };
        wrong(&utility("nfs-cp", vec![mine.path().as_os_str().to_owned(), at.clone()]).await);
        assert!(!path.exists(), "it was made");
        std::fs::write(&path, "kept").unwrap();
        wrong(&utility("nfs-cat", vec![at.clone()]).await);
        wrong(&utility("nfs-cp", vec![mine.path().as_os_str().to_owned(), at]).await);
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }
    std::fs::write(folder.path().join("beside"), "served").unwrap();
    assert_eq!(utility("nfs-cat", vec![url(&door, "/beside")]).await.stdout, b"served");
}

/// Another user of the machine reaches the port, and may do nothing unless the door is opened for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_users_are_refused_unless_the_door_is_open_for_any() {
    const STRANGER: u32 = 54_321;
    let Served { folder, server: _server, clerk, door } = serve().await;
    std::fs::write(folder.path().join("file"), "mine").unwrap();
    let open = NfsDoor::open_to(Callers::AnyUser, clerk, 0).await.unwrap();
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    for (uid, door, served) in [(own, &door, true), (0, &door, true), (STRANGER, &door, false), (STRANGER, &open, true)]
    {
        let shown = utility("nfs-cat", vec![format!("{}&uid={uid}", url(door, "/file"))]).await;
        assert_eq!(shown.status.success() && shown.stdout == b"mine", served, "{uid}: {shown:?}");
        let found = match bridge_as(uid, door).await {
            Ok(client) => lookup(&client, "file").await.is_ok(),
            Err(_) => false,
        };
        assert_eq!(found, served, "{uid}");
    }
}

/// Its clients go on with the handles that they have, and what they wrote before need not be written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_survive_a_restart_of_the_clerk() {
    let Served { folder: _folder, server, clerk, door } = serve().await;
    let before = bridge(&door).await;
    let dir = mkdir(&before, "dir").await.handle;
    let file = create(&before, "dir/file").await.handle;
    let verifier = write(&before, &file, 0, b"written", Stable::Unstable).await.unwrap().verifier;
    drop((before, door, clerk));
    let clerk = Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
    let door = NfsDoor::open(clerk, 0).await.unwrap();
    let after = bridge(&door).await;
    let committed = after.commit(CommitParams { handle: file.clone(), offset: 0, count: 0 }).await.unwrap();
    assert_eq!(committed.verifier, verifier);
    assert_eq!(read(&after, &file, 0, 10).await.unwrap().data.as_slice(), b"written");
    let params = LookupParams { dir: Some(dir), name: Some("file".to_owned()), path: None };
    assert_eq!(after.lookup(params).await.unwrap().handle, file);
}

/// A handle says which file it is, whatever its path was: of a file that another clerk renamed, and of what is below a directory that one did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_from_before_a_move_go_on_working() {
    let Served { folder: _folder, server, clerk: _clerk, door } = serve().await;
    let client = bridge(&door).await;
    let other = Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
    mkdir(&client, "a").await;
    let sub = mkdir(&client, "a/sub").await.handle;
    let file = create(&client, "a/sub/file").await.handle;
    let own = lookup(&other, "a/sub/file").await.unwrap().handle;
    for (from, to) in [("a", "b"), ("b", "c")] {
        let (from_name, to_name) = (from.to_owned(), to.to_owned());
        other.rename(RenameParams { from_dir: None, from_name, to_dir: None, to_name }).await.unwrap();
        // Something else by the old name misleads nobody.
        mkdir(&other, from).await;
        mkdir(&other, &format!("{from}/sub")).await;
        write(&client, &file, 0, to.as_bytes(), Stable::Unstable).await.unwrap();
        assert_eq!(read(&client, &file, 0, 10).await.unwrap().data.as_slice(), to.as_bytes());
        assert_eq!(read(&other, &own, 0, 10).await.unwrap().data.as_slice(), to.as_bytes());
        let made = CreateParams { dir: Some(sub.clone()), name: Some(format!("in {to}")), ..CreateParams::default() };
        client.create(made).await.unwrap();
        assert!(lookup(&other, &format!("{to}/sub/in {to}")).await.is_ok());
    }
    let dir = Some(lookup(&other, "c/sub").await.unwrap().handle);
    other
        .rename(RenameParams {
            from_dir: dir.clone(),
            from_name: "file".to_owned(),
            to_dir: dir,
            to_name: "moved".to_owned(),
        })
        .await
        .unwrap();
    assert_eq!(read(&client, &file, 0, 10).await.unwrap().data.as_slice(), b"c");
    assert_eq!(client.getattr(GetattrParams { handle: sub }).await.unwrap().kind, Kind::Directory);
}

/// By one thread, so that the door takes the first connection after its client has reset it.
#[tokio::test]
async fn a_client_that_is_gone_before_it_is_taken_ends_the_door_for_nobody_else() {
    let Served { folder, server: _server, clerk: _clerk, door } = serve().await;
    std::fs::write(folder.path().join("file"), "served").unwrap();
    let aborted = std::net::TcpStream::connect(("127.0.0.1", door.port())).unwrap();
    aborted.set_nonblocking(true).unwrap();
    TcpStream::from_std(aborted).unwrap().set_zero_linger().unwrap();
    let client = bridge(&door).await;
    assert_eq!(lookup(&client, "file").await.unwrap().attributes.size, 6);
    let port = door.port();
    drop(door);
    common::until("the door is closed", async || TcpStream::connect(("127.0.0.1", port)).await.is_err()).await;
}

/// What a client of the clerk makes up is nobody's file, and no way out of what is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_its_clerk_for_anothers_files_gets_none() {
    let Served { folder, server: _server, clerk: _, door } = serve().await;
    std::os::unix::fs::symlink("/etc", folder.path().join("out")).unwrap();
    let service = bridge(&door).await;
    let file = create(&service, "file").await.handle;
    for at in 0..file.0.len() {
        let mut forged = file.0.to_vec();
        forged[at] ^= 0x55;
        let handle = Handle(forged.into());
        let why = service.getattr(GetattrParams { handle }).await.unwrap_err().name();
        assert!(["NFS3ERR_STALE", "NFS3ERR_BADHANDLE"].contains(&why), "byte {at}: {why}");
    }
    for path in ["out/passwd", "../etc/passwd", "file/../../etc"] {
        assert!(lookup(&service, path).await.is_err(), "{path}");
    }
    let none = utility("nfs-cat", vec![url(&door, "out/passwd")]).await;
    assert!(!none.status.success(), "{}", String::from_utf8_lossy(&none.stdout));
    assert!(read(&service, &file, 0, 10).await.unwrap().eof, "its own it has");
}
