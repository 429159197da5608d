//! Copies between real `catena up` processes, by chain and by plain calls, that cannot succeed: what is said, and what is left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use catena::{Client, Exception, Place, Topology};
use catena_apps::copy::{self, Copied, Copy, Progress};
use support::{Server, file, folder};

#[derive(Clone, Copy, Debug)]
enum Way {
    Chain,
    Calls,
}

/// Two nodes in processes of their own, `from` with `files.from` and `to` with `files.to`, and a client in this one.
struct World {
    client: Client,
    from: Mutex<Option<Server>>,
    to: Mutex<Option<Server>>,
    folder: tempfile::TempDir,
}

/// How the nodes of a world are.
#[derive(Default)]
struct Plan<'a> {
    /// Links as between Mountain View, Beijing and Cambridge: a copy of some megabytes takes seconds.
    slow: bool,
    /// What the source's node is started through.
    from_through: &'a [&'a str],
    /// What the target's node is started through.
    to_through: &'a [&'a str],
    /// Only the source's node is started.
    alone: bool,
}

impl World {
    async fn new(plan: &Plan<'_>) -> Self {
        let folder = folder();
        for name in ["from", "to"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self::over(folder, plan).await
    }

    async fn over(folder: tempfile::TempDir, plan: &Plan<'_>) -> Self {
        let (from, seed) = node(&folder, "from", plan, None);
        let to = (!plan.alone).then(|| node(&folder, "to", plan, Some(&seed)).0);
        let mut client = Client::builder("client").cache_dir(concat!(env!("CARGO_TARGET_TMPDIR"), "/modules"));
        let mut place = Place::new(&seed);
        if plan.slow {
            client = client.site("cam").topology(Arc::new(Topology::paper()));
            place.site = Some("mtv".into());
        }
        let client = client.join(place).connect().await.unwrap();
        Self { client, from: Mutex::new(Some(from)), to: Mutex::new(to), folder }
    }

    fn path(&self, node: &str, name: &str) -> PathBuf {
        self.folder.path().join(node).join(name)
    }

    async fn copy(&self, way: Way, source: &str, progress: impl Fn(Progress)) -> Result<Copied, Exception> {
        let job = Copy::new("files.from", source, "files.to", "target.bin");
        match way {
            Way::Chain => {
                let code = copy::code(&self.client).await.unwrap();
                copy::by_chain(&self.client, &code, &job, progress).await
            }
            Way::Calls => copy::by_rpc(&self.client, &job, progress).await,
        }
    }

    /// Copies eight megabytes, and kills one of the nodes as soon as some of it is written.
    async fn killed_half_way(&self, way: Way, victim: &Mutex<Option<Server>>) -> Exception {
        fs::File::create(self.path("from", "source.bin")).unwrap().set_len(8 << 20).unwrap();
        let kill = |progress: Progress| {
            if progress.written > 0
                && let Some(victim) = victim.lock().unwrap().take()
            {
                victim.kill();
            }
        };
        let why = self.copy(way, "source.bin", kill).await.unwrap_err();
        assert!(victim.lock().unwrap().is_none(), "it failed before the node was killed: {why}");
        why
    }
}

/// Starts a node over the folder of its name; gives its address, too.
fn node(folder: &tempfile::TempDir, name: &str, plan: &Plan<'_>, seed: Option<&str>) -> (Server, String) {
    let (site, through) = if name == "from" { ("mtv", plan.from_through) } else { ("bei", plan.to_through) };
    let join = seed.map(|address| format!("join = [{{ address = \"{address}\", site = \"mtv\" }}]\n"));
    let shaped = if plan.slow { "shaped = \"paper\"\n" } else { "" };
    let text = format!(
        "name = \"{name}\"\nsite = \"{site}\"\nlisten = \"127.0.0.1:0\"\n{}{shaped}\
         [[service]]\nkind = \"files\"\nname = \"files.{name}\"\nroot = \"{name}\"\n",
        join.unwrap_or_default()
    );
    let file = file(folder, &format!("{name}.toml"), &text);
    let arguments = ["up", &file, "--json"];
    let server =
        if through.is_empty() { Server::start(&arguments) } else { Server::start_through(through, &arguments) };
    let address = server.ready()["node"]["address"].as_str().unwrap().to_owned();
    (server, address)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[track_caller]
fn says(why: &Exception, path: &[&str], parts: &[&str]) {
    assert_eq!(why.path, path, "{why}");
    for part in parts {
        assert!(why.message.contains(part), "{part:?} is not in: {why}");
    }
}

async fn target_dies(way: Way, names: &[&str], path: &[&str], said: &str) {
    let world = World::new(&Plan { slow: true, ..Plan::default() }).await;
    let why = world.killed_half_way(way, &world.to).await;
    assert!(names.contains(&why.name.as_str()), "{why}");
    says(&why, path, &["target.bin", "half-written", "files.to", said]);
    // It is where the message says, and cannot be anywhere else: the node that could remove it is gone.
    assert!(world.path("to", "target.bin").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_target_s_node_dies_under_a_chain() {
    target_dies(Way::Chain, &["ChainLost", "NodeLost"], &["client", "from"], "may be left").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_target_s_node_dies_under_plain_calls() {
    target_dies(Way::Calls, &["NodeLost", "NodeUnreachable"], &["client", "to"], "could not be removed").await;
}

async fn source_dies(way: Way, path: &[&str]) {
    let world = World::new(&Plan { slow: true, ..Plan::default() }).await;
    let why = world.killed_half_way(way, &world.from).await;
    assert!(["NodeLost", "NodeUnreachable"].contains(&why.name.as_str()), "{why}");
    says(&why, path, &["from", "the half-written target.bin at files.to has been removed"]);
    assert!(!world.path("to", "target.bin").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_s_node_dies_under_a_chain() {
    source_dies(Way::Chain, &["client", "from", "to"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_s_node_dies_under_plain_calls() {
    source_dies(Way::Calls, &["client", "from"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_never_came_up_is_named() {
    let world = World::new(&Plan { alone: true, ..Plan::default() }).await;
    fs::write(world.path("from", "source.bin"), "source").unwrap();
    for (way, path) in [(Way::Chain, &["client", "from"][..]), (Way::Calls, &["client"])] {
        let why = world.copy(way, "source.bin", |_| ()).await.unwrap_err();
        assert_eq!(why.name, "UnknownService", "{why}");
        says(&why, path, &["files.to", "its node is down", "start it"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_gone_down_is_named() {
    for way in [Way::Chain, Way::Calls] {
        let world = World::new(&Plan::default()).await;
        fs::write(world.path("from", "source.bin"), "source").unwrap();
        world.to.lock().unwrap().take().unwrap().kill();
        let why = world.copy(way, "source.bin", |_| ()).await.unwrap_err();
        // Which of them depends on whether the others have noticed yet.
        match why.name.as_str() {
            "UnknownService" => says(&why, &why.path.iter().map(String::as_str).collect::<Vec<_>>(), &["start it"]),
            "NodeUnreachable" => assert!(why.message.contains("check that it is up"), "{why}"),
            "NodeLost" => assert!(why.message.contains("to was lost"), "{why}"),
            other => panic!("{way:?}: {other}: {why}"),
        }
        assert_eq!(why.path[0], "client", "{why}");
        assert!(!world.path("to", "target.bin").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_at_the_target_is_told_by_its_name() {
    let folder = folder();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    fs::File::create(from.join("source.bin")).unwrap().set_len(4 << 20).unwrap();
    // A disk of one megabyte, which only the target's node sees.
    let namespace = if is_root() { "-m" } else { "-rm" };
    let mount = "mount -t tmpfs -o size=1m tmpfs \"$1\" && shift && exec \"$@\"";
    let to_through = ["unshare", namespace, "sh", "-c", mount, "sh", to.to_str().unwrap()];
    let world = World::over(folder, &Plan { to_through: &to_through, ..Plan::default() }).await;
    for (way, path) in [(Way::Chain, &["client", "from", "to"][..]), (Way::Calls, &["client", "to"])] {
        let why = world.copy(way, "source.bin", |_| ()).await.unwrap_err();
        assert_eq!(why.name, "NFS3ERR_NOSPC", "{why}");
        says(&why, path, &["no space is left", "the half-written target.bin at files.to has been removed"]);
        let gone = copy::hash(&world.client, "files.to", "target.bin").await.unwrap_err();
        assert_eq!(gone.name, "NFS3ERR_NOENT", "{gone}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_cannot_be_read_harms_no_target() {
    // Root may read everything, so the source's node is started without that right.
    let without = "-dac_override,-dac_read_search";
    let bounding = format!("--bounding-set={without}");
    let inheritable = format!("--inh-caps={without}");
    let from_through: &[&str] = if is_root() { &["setpriv", &bounding, &inheritable] } else { &[] };
    let world = World::new(&Plan { from_through, ..Plan::default() }).await;
    fs::create_dir(world.path("from", "folder")).unwrap();
    let unreadable = world.path("from", "unreadable");
    fs::write(&unreadable, "not for everybody").unwrap();
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(world.path("to", "target.bin"), "as it was").unwrap();
    let cases = [
        ("missing", "NFS3ERR_NOENT", "missing"),
        ("folder", "NotAFile", "folder is no file"),
        ("unreadable", "NFS3ERR_ACCES", "target.bin at files.to is as it was"),
    ];
    for (source, name, part) in cases {
        for way in [Way::Chain, Way::Calls] {
            let why = world.copy(way, source, |_| ()).await.unwrap_err();
            assert_eq!(why.name, name, "{way:?} of {source}: {why}");
            assert!(why.message.contains(part), "{way:?} of {source}: {why}");
            assert_eq!(why.path[..2], ["client", "from"], "{way:?} of {source}: {why}");
            assert!(is("as it was", &world.path("to", "target.bin")), "{way:?} of {source}");
        }
    }
    // What it would have replaced is there, but a target that was made for it is not left behind.
    fs::remove_file(world.path("to", "target.bin")).unwrap();
    for way in [Way::Chain, Way::Calls] {
        let why = world.copy(way, "unreadable", |_| ()).await.unwrap_err();
        assert!(why.message.contains("has been removed"), "{why}");
        assert!(!world.path("to", "target.bin").exists(), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_target_is_cut_to_the_source_s_length() {
    let world = World::new(&Plan::default()).await;
    for source in ["short", ""] {
        fs::write(world.path("from", "source.bin"), source).unwrap();
        for way in [Way::Chain, Way::Calls] {
            fs::write(world.path("to", "target.bin"), "something longer").unwrap();
            let copied = world.copy(way, "source.bin", |_| ()).await.unwrap();
            assert_eq!(copied.bytes, source.len() as u64);
            assert!(is(source, &world.path("to", "target.bin")), "{way:?} of {source:?}");
        }
    }
    let itself = Copy::new("files.from", "source.bin", "files.from", "source.bin");
    let why = copy::by_rpc(&world.client, &itself, |_| ()).await.unwrap_err();
    assert_eq!(why.name, "BadParameters", "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_takes_no_more_calls_than_a_chain_has() {
    let world = World::new(&Plan::default()).await;
    let source = fs::File::create(world.path("from", "source.bin")).unwrap();
    source.set_len(40 << 20).unwrap();
    let copied = world.copy(Way::Chain, "source.bin", |_| ()).await.unwrap();
    assert_eq!(copied.bytes, 40 << 20);
    assert_eq!(fs::metadata(world.path("to", "target.bin")).unwrap().len(), 40 << 20);

    source.set_len(2 << 30).unwrap();
    let why = world.copy(Way::Chain, "source.bin", |_| ()).await.unwrap_err();
    assert_eq!(why.name, "TooLarge", "{why}");
    assert_eq!(fs::metadata(world.path("to", "target.bin")).unwrap().len(), 40 << 20, "it was touched");
}

fn is(text: &str, path: &Path) -> bool {
    fs::read_to_string(path).unwrap() == text
}
