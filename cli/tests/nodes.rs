//! `catena up` and `catena dev` as processes: they start, say where, and end cleanly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../catena/tests/common/held.rs"]
mod held;
mod support;

use std::{
    net::TcpListener,
    path::PathBuf,
    time::{Duration, Instant},
};

use catena_ganesha::GaneshaServer;
use held::HeldPort;
use support::{Server, catena, file, folder};

#[test]
fn dev_starts_says_ready_and_ends_on_ctrl_c() {
    let server = Server::start(&["dev", "--port-base", "0", "--json"]);
    let ready = server.ready();
    let names: Vec<_> = ready["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mtv", "red", "cam", "bei"]);
    let data = PathBuf::from(ready["nodes"][0]["data"].as_str().unwrap());
    assert!(data.is_dir());
    assert_eq!(server.end_by("INT"), Some(0));
    assert!(!data.exists(), "the fresh folder is removed at the end");
}

#[test]
fn dev_ends_when_its_terminal_is_closed_unless_it_is_to_outlive_it() {
    let dev = ["dev", "--port-base", "0", "--no-shape", "--json"];
    let server = Server::start_through(&["env", "--default-signal=HUP"], &dev);
    server.ready();
    // The shell sends it, and then the kernel: the second is not one more Ctrl-C.
    server.signal("HUP");
    assert_eq!(server.end_by("HUP"), Some(0));
    let server = Server::start_through(&["nohup"], &dev);
    server.ready();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "{ignored}");
    assert_eq!(server.end_by("TERM"), Some(0));
}

#[test]
fn dev_keeps_the_users_folder_and_shows_a_table() {
    let folder = folder();
    let root = folder.path().join("sites");
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--data", root.to_str().unwrap()]);
    assert!(server.line(|line| line.contains("Beijing")).contains("files.bei probe.bei"));
    server.line(|line| line == "ready");
    assert!(root.join("bei").is_dir());
    assert_eq!(server.end_by("TERM"), Some(0));
    assert!(root.join("bei").is_dir());
}

#[test]
fn services_are_found_by_a_file_and_it_can_be_seen_how() {
    let folder = folder();
    let there = file(
        &folder,
        "there.toml",
        "name = \"there\"\nlisten = \"127.0.0.1:0\"\n[[service]]\nkind = \"probe\"\nname = \"probe.there\"\n",
    );
    let there = Server::start(&["up", &there, "--json"]);
    let address = there.ready()["node"]["address"].as_str().unwrap().to_owned();
    // It has not joined the other: only its file knows of it.
    let names = file(&folder, "names.toml", &format!("[services]\n\"probe.there\" = \"{address}\"\n"));
    let here = file(&folder, "here.toml", "name = \"here\"\nlisten = \"127.0.0.1:0\"\n");
    let here = Server::start(&["up", &here, "--names", &names, "--json"]);
    let at = here.ready()["node"]["address"].as_str().unwrap().to_owned();
    let said = catena(&["resolve", "probe.there", "--connect", &at, "--json"]).json();
    let resolvers = said["resolvers"].as_array().unwrap();
    assert_eq!(resolvers.iter().map(|one| one["resolver"].as_str().unwrap()).collect::<Vec<_>>(), ["mesh", "file"]);
    assert_eq!(resolvers[1]["at"][0]["address"], address.as_str());
    assert!(resolvers[0]["at"].as_array().unwrap().is_empty() && resolvers[1]["age_us"].is_u64(), "{said}");
    let echoed = catena(&["call", "probe.there/echo", "\"hello\"", "--connect", &at, "--json"]).json();
    assert_eq!(echoed["result"], "hello", "{echoed}");
    catena(&["resolve", "nobody", "--connect", &at]).failed(1, &["nobody is said to serve nobody"]);
    let nobody = catena(&["resolve", "nobody", "--connect", &at, "--json"]);
    assert_eq!((nobody.code, nobody.json()["service"].as_str()), (Some(1), Some("nobody")), "{nobody:?}");
    std::fs::write(&names, "[services]\nbroken = 1\n").unwrap();
    let table = catena(&["resolve", "probe.there", "--connect", &at]);
    assert!(table.err.contains("as the file was before") && table.out.contains(&address), "{table:?}");
}

#[test]
fn segments_are_listed_read_and_written() {
    let folder = folder();
    let text = "name = \"owner\"\nlisten = \"127.0.0.1:0\"\n[[service]]\nkind = \"probe\"\nname = \"probe.owner\"\n\
        [[segment]]\nname = \"loads\"\nbytes = 64\nanyone = [\"read\", \"write\"]\n\
        [[segment]]\nname = \"notes\"\nbytes = 16\nanyone = [\"read\"]\n[[segment]]\nname = \"mine\"\nbytes = 8\n";
    let owner = Server::start(&["up", &file(&folder, "owner.toml", text), "--json"]);
    let at = owner.ready()["node"]["address"].as_str().unwrap().to_owned();
    let segments = |arguments: &[&str]| catena(&[&["segments"], arguments, &["--connect", &at]].concat());
    let listed = segments(&["ls", "--json"]).json();
    let listed = listed["segments"].as_array().unwrap();
    let names: Vec<_> = listed.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["loads", "notes"], "what is for nobody is not shown");
    assert_eq!(listed[0]["rights"], serde_json::json!(["read", "write"]));
    assert!(segments(&["ls", "owner"]).out.contains("owner/loads"));
    let explained = segments(&["ls", "owner", "--explain"]).out;
    assert!(explained.contains("shared memory") && explained.contains("mapped on this host"), "{explained}");
    assert_eq!(catena(&["ls", "--segments", "--connect", &at]).out, explained);
    let wrote = segments(&["write", "owner/loads", "hello", "--offset", "8", "--json"]).json();
    assert_eq!((&wrote["count"], &wrote["way"]), (&5.into(), &"shared memory".into()));
    assert_eq!(segments(&["read", "owner/loads", "--offset", "8", "--count", "5", "--raw"]).out, "hello");
    assert_eq!(segments(&["write", "owner/loads", "ff00", "--hex"]).code, Some(0));
    let dump = segments(&["read", "probe.owner/loads"]);
    assert!(dump.out.starts_with("00000000  ff 00 00") && dump.out.contains("........hello..."), "{dump:?}");
    let read = segments(&["read", "owner/loads", "--count", "2", "--json"]).json();
    assert_eq!(read["hex"], "ff00");
    // What goes wrong says who, and what next.
    segments(&["write", "owner/notes", "x"]).failed(1, &["NoRight", "right to write"]);
    segments(&["read", "owner/mine"]).failed(1, &["UnknownSegment", "segments ls"]);
    segments(&["read", "owner/loads", "--offset", "60", "--count", "5"]).failed(1, &["OutOfBounds", "64 bytes"]);
    segments(&["read", "nobody/loads"]).failed(1, &["NodeUnreachable", "catena ls"]);
    segments(&["read", "loads"]).failed(1, &["OWNER/NAME"]);
    segments(&["write", "owner/loads", "0x1", "--hex"]).failed(2, &["not hexadecimal"]);
    let twice = file(&folder, "twice.toml", &text.replace("notes", "loads"));
    catena(&["check", &twice]).failed(4, &["loads is there twice", "twice.toml:11"]);
    let rdma = file(&folder, "rdma.toml", "name = \"n\"\n[rdma]\nprovider = \"shm\"\n");
    let checked = catena(&["check", &rdma]);
    if cfg!(feature = "rdma") {
        assert_eq!(checked.code, Some(0), "{}", checked.err);
    } else {
        checked.failed(4, &["built without RDMA", "--features rdma", "rdma.toml:3"]);
    }
}

#[test]
fn up_serves_what_its_file_says() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/hello.txt"), "hello").unwrap();
    let first = file(
        &folder,
        "first.toml",
        "name = \"first\"\nlisten = \"127.0.0.1:0\"\nrepository = true\n\
         [[service]]\nkind = \"files\"\nname = \"files.here\"\nroot = \"data\"\n[limits]\nmemory_bytes_max = 33_554_432\n",
    );
    let first = Server::start(&["up", &first, "--json"]);
    let ready = first.ready();
    let address = ready["node"]["address"].as_str().unwrap();
    assert_eq!(ready["node"]["services"][0]["service"], "files.here");
    let second = file(
        &folder,
        "second.toml",
        &format!("name = \"second\"\njoin = [\"{address}\"]\n[[service]]\nkind = \"probe\"\nname = \"probe.there\"\n"),
    );
    let second = Server::start(&["up", &second, "--listen", "127.0.0.1:0", "--json"]);
    let there = second.ready()["node"]["address"].as_str().unwrap().to_owned();

    let found = catena(&["call", "files.here/lookup", "{\"path\": \"hello.txt\"}", "--connect", &there]);
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(found.json()["attributes"]["size"], 5, "{found:?}");
    let listed = catena(&["ls", "--connect", &there, "--json"]);
    let services: Vec<_> = listed.json()["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["service"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(services, ["files.here", "probe.there"]);
    assert_eq!(second.end_by("TERM"), Some(0));
    assert_eq!(first.end_by("INT"), Some(0));
}

#[test]
fn functions_of_a_node_may_have_half_of_its_memory() {
    let folder = folder();
    let text = "name = \"small\"\nlisten = \"127.0.0.1:0\"\nmemory_bytes_max = 134_217_728\n\
        [limits]\nmemory_bytes_max = 134_217_728\n[[service]]\nkind = \"probe\"\nname = \"probe.small\"\n";
    let node = Server::start(&["up", &file(&folder, "small.toml", text), "--json"]);
    let at = node.ready()["node"]["address"].as_str().unwrap().to_owned();
    let run = |mib: u32| {
        let text = format!(
            "import {{ call }} from \"catena\";\nexport default async () => {{\n  await call(\"probe.small/where\");\n  \
             return new Uint8Array({mib} << 20).fill(1).length;\n}};\n"
        );
        catena(&["run", &file(&folder, &format!("{mib}.js"), &text), "--connect", &at])
    };
    run(80).failed(1, &["Overloaded", "half of the node's memory"]);
    let fits = run(20);
    assert_eq!((fits.code, fits.out.trim()), (Some(0), "20971520"), "{}", fits.err);
    assert_eq!(node.end_by("TERM"), Some(0));
}

#[test]
fn a_folder_of_compiled_modules_that_cannot_be_used_is_told_at_once() {
    let folder = folder();
    file(&folder, "taken", "");
    let node = file(&folder, "n.toml", "name = \"n\"\nlisten = \"127.0.0.1:0\"\ncache_dir = \"taken\"\n");
    catena(&["up", &node]).failed(4, &["the sandbox cannot be made", "taken"]);
}

#[test]
fn a_node_to_join_that_is_down_is_named_and_joined_when_it_is_up() {
    let held = HeldPort::new();
    let seed = held.address.to_string();
    let folder = folder();
    let text = format!(
        "name = \"first\"\nlisten = \"127.0.0.1:0\"\njoin = [\"{seed}\"]\n[[service]]\nkind = \"probe\"\nname = \"probe.first\"\n"
    );
    let first = Server::start(&["up", &file(&folder, "first.toml", &text), "--json"]);
    first.ready();
    let warning = first.talk("not joined yet");
    assert!(warning.contains(&seed) && warning.contains("trying again"), "{warning}");

    let second = file(&folder, "second.toml", &format!("name = \"second\"\nlisten = \"{seed}\"\n"));
    let second = Server::start(&["up", &second, "--json"]);
    second.ready();
    let until = Instant::now() + Duration::from_secs(60);
    // Each question takes as long as a process does, and the mesh tells nobody outside when it grows.
    while catena(&["call", "probe.first/where", "--connect", &seed]).code != Some(0) {
        assert!(Instant::now() < until, "the first node has not joined");
    }
    assert_eq!((first.end_by("TERM"), second.end_by("TERM")), (Some(0), Some(0)));
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = folder();
    let node = file(&folder, "n.toml", &format!("name = \"n\"\nlisten = \"{address}\"\n"));
    catena(&["up", &node]).failed(4, &["port in use", &address, "--listen"]);
    // The first of four ports, where four in a row are there.
    let base = taken.local_addr().unwrap().port().min(u16::MAX - 3);
    if base == taken.local_addr().unwrap().port() {
        catena(&["dev", "--port-base", &base.to_string()]).failed(4, &["port in use", &address, "--port-base"]);
    }
}

#[test]
fn a_wrong_file_has_its_line() {
    let folder = folder();
    let node = file(&folder, "n.toml", "name = \"n\"\nlisen = \"127.0.0.1:0\"\n");
    catena(&["up", &node]).failed(4, &["n.toml:2:1: error:", "2 | lisen", "^", "did you mean listen?"]);
    let json = catena(&["up", &node, "--json"]);
    assert_eq!(json.json()["error"]["line"], 2);
    let node = file(&folder, "n.toml", "name = \"n\"\n[[service]]\nkind = \"fils\"\nname = \"f\"\n");
    catena(&["up", &node]).failed(4, &["n.toml:3:8", "did you mean files?"]);
    let node =
        file(&folder, "n.toml", "name = \"n\"\n[[service]]\nkind = \"files\"\nname = \"f\"\nroot = \"nowhere\"\n");
    catena(&["up", &node]).failed(4, &["n.toml:4:8", "nowhere"]);
    let missing = folder.path().join("m.toml");
    catena(&["up", missing.to_str().unwrap()]).failed(2, &["m.toml does not exist", "did you mean", "n.toml?"]);
    catena(&["up", folder.path().to_str().unwrap()]).failed(2, &["is a directory"]);
}

#[test]
fn a_node_on_all_addresses_says_which_one_others_dial() {
    let folder = folder();
    let probe = "[[service]]\nkind = \"probe\"\nname = \"probe.all\"\n";
    let node = file(&folder, "n.toml", &format!("name = \"n\"\nlisten = \"0.0.0.0:0\"\n{probe}"));
    catena(&["up", &node]).failed(4, &["every address of this machine", "help:", "--advertise HOST:PORT"]);

    let node =
        file(&folder, "n.toml", &format!("name = \"n\"\nlisten = \"0.0.0.0:0\"\nadvertise = \"127.0.0.1:0\"\n{probe}"));
    let server = Server::start(&["up", &node, "--json"]);
    let address = server.ready()["node"]["address"].as_str().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
    let listed = catena(&["ls", "--connect", &address, "--json"]);
    assert_eq!(listed.json()["services"][0]["address"], address, "{listed:?}");
    assert_eq!(server.end_by("TERM"), Some(0));
}

#[test]
fn an_nfs_server_is_served_as_the_file_says() {
    let ganesha = GaneshaServer::start();
    std::fs::write(ganesha.dir.join("hello.txt"), "over NFS").unwrap();
    let folder = folder();
    let (nfs_port, mount_port, export) = (ganesha.nfs_port, ganesha.mount_port, &ganesha.export);
    let node = |export: &str| {
        let service = format!(
            "[[service]]\nkind = \"nfs\"\nname = \"nfs.here\"\nhost = \"127.0.0.1\"\nexport = \"{export}\"\n\
             nfs_port = {nfs_port}\nmount_port = {mount_port}\nuid = 0\ngid = 0\nidentity = {{ act_as = \"node\" }}\nmachine = \"test\"\n"
        );
        file(&folder, "nfs.toml", &format!("name = \"n\"\nlisten = \"127.0.0.1:0\"\n{service}"))
    };
    let server = Server::start(&["up", &node(export), "--json"]);
    let ready = server.ready();
    assert_eq!(ready["node"]["services"][0]["service"], "nfs.here");
    let address = ready["node"]["address"].as_str().unwrap();

    let call = |function: &str, params: &str| catena(&["call", function, params, "--connect", address]);
    let found = call("nfs.here/lookup", "{\"path\": \"hello.txt\"}").json();
    let handle = found["handle"].to_string();
    let read = call("nfs.here/read", &format!("{{\"handle\": {handle}, \"offset\": 5, \"count\": 9}}"));
    assert_eq!(read.json(), serde_json::json!({ "data": { "$bytes": "TkZT" }, "eof": true }), "{read:?}");
    call("nfs.here/mkdir", "{\"path\": \"made\"}").json();
    assert!(ganesha.dir.join("made").is_dir());
    call("nfs.here/lookup", "{\"path\": \"nowhere\"}")
        .failed(1, &["error: NFS3ERR_NOENT: lookup of", "check the name"]);
    assert_eq!(server.end_by("TERM"), Some(0));

    // What the file has wrong about the server is told at the service's line.
    catena(&["up", &node("/no/such/export")]).failed(4, &["nfs.toml:5:8", "/no/such/export", "MNT3ERR", "help:"]);
}
