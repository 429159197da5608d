//! What a node's owner decides in its file: whose code runs there, as whom it acts, what is kept. Each over real processes, and told by `catena check`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
};

use catena_ganesha::GaneshaServer;
use serde_json::{Value, json};
use support::{Ended, Server, catena, command, end, file, folder};

/// Starts a node from this text; gives its address, too.
fn up(folder: &tempfile::TempDir, text: &str) -> (Server, String) {
    let server = Server::start(&["up", &file(folder, "node.toml", text), "--json"]);
    let address = server.ready()["node"]["address"].as_str().unwrap().to_owned();
    (server, address)
}

/// What `catena check` says of this text: each thing with its meaning.
#[track_caller]
fn meaning(folder: &tempfile::TempDir, text: &str) -> Vec<(String, String)> {
    let checked = catena(&["check", &file(folder, "checked.toml", text), "--json"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    checked.json()["node"].as_array().unwrap().iter().map(|row| (text(&row["what"]), text(&row["means"]))).collect()
}

#[track_caller]
fn means(folder: &tempfile::TempDir, text: &str, what: &str, part: &str) {
    let told = meaning(folder, text);
    let (_, means) = told.iter().find(|(key, _)| key == what).unwrap_or_else(|| panic!("{told:?}"));
    assert!(means.contains(part), "{part:?} is not in {means:?}");
}

const PROBE: &str = "[[service]]\nkind = \"probe\"\nname = \"probe.a\"\n";

#[test]
fn the_owner_says_whose_code_runs_there() {
    let folder = folder();
    let (_proxy, proxy) = up(&folder, "name = \"proxy\"\nlisten = \"127.0.0.1:0\"\nhosts_chains_for_others = true\n");
    let visit = file(
        &folder,
        "visit.js",
        "import { call } from \"catena\";\nexport default async (probe) => (await call(`${probe}/where`, {})).node;",
    );
    for (number, (more, told, path)) in [
        (String::new(), "that call its services run their code here", json!(["client", "a"])),
        ("runs_guests = false\n".to_owned(), "no foreign code", json!(["client"])),
        (format!("chaining_proxy = \"{proxy}\"\n"), "chains run theirs at 127.0.0.1:", json!(["client", "proxy"])),
        ("chaining_proxy = \"127.0.0.1:1\"\n".to_owned(), "while it cannot be reached", json!(["client"])),
    ]
    .into_iter()
    .enumerate()
    {
        // A name of its own: that of the one before may still be known.
        let service = format!("probe.{number}");
        let text = format!("name = \"a\"\nlisten = \"127.0.0.1:0\"\njoin = [\"{proxy}\"]\n{more}{PROBE}");
        let text = text.replace("probe.a", &service);
        means(&folder, &text, "foreign code", told);
        let (a, _) = up(&folder, &text);
        let ran = catena(&["run", &visit, "--arg", &format!("\"{service}\""), "--connect", &proxy, "--json"]).json();
        assert_eq!((&ran["result"], &ran["path"]), (&json!("a"), &path), "{more}: {ran}");
        assert_eq!(a.end_by("TERM"), Some(0));
    }
    let hosts = "name = \"p\"\nhosts_chains_for_others = true\n";
    means(&folder, hosts, "foreign code", "or those of other nodes, run their code here");
}

#[test]
fn what_durable_functions_did_is_known_after_a_crash() {
    let folder = folder();
    fs::create_dir(folder.path().join("data")).unwrap();
    // Nobody takes its port while it is down: who dials comes from 127.0.0.1.
    let address = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().to_string();
    let text = format!(
        "name = \"n\"\nlisten = \"{address}\"\n[step_store]\nfile = \"steps\"\n\
         [[service]]\nkind = \"files\"\nname = \"files.a\"\nroot = \"data\"\ndurable = [\"create\"]\n{PROBE}"
    );
    means(&folder, &text, "step_store", &folder.path().join("steps").display().to_string());
    means(&folder, &text, "service files.a", "durable: create");
    means(&folder, PROBE.replacen("[[", "name = \"n\"\n[[", 1).as_str(), "step_store", "forgotten");

    let (first, _) = up(&folder, &text);
    // Made twice, the second would be refused.
    let source = "import { call, emit } from \"catena\";\nexport default async () => {\n\
        const made = await call(\"files.a/create\", { path: \"once\", how: \"guarded\" });\n\
        emit(\"made\");\n  await call(\"probe.a/sleep\", { ms: 3000 });\n  return made.attributes.kind;\n};";
    let function = file(&folder, "make.js", source);
    let mut client = command(&["run", &function, "--connect", &address]).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "\"made\"");
    first.kill();
    let (second, _) = up(&folder, &text);
    let (rest, ended): (Vec<_>, _) = (lines.map(Result::unwrap).collect(), end(client));
    assert_eq!((ended.code, rest.as_slice()), (Some(0), ["\"file\"".to_owned()].as_slice()), "{ended:?}");
    assert_eq!(second.end_by("TERM"), Some(0));

    fs::create_dir(folder.path().join("steps.d")).unwrap();
    let no_file = file(&folder, "n.toml", &text.replace("file = \"steps\"", "file = \"steps.d\""));
    catena(&["up", &no_file]).failed(4, &["the step store", "steps.d", "[step_store]"]);
}

#[test]
fn compiled_modules_are_kept_where_the_file_says() {
    let folder = folder();
    let text = "name = \"n\"\nlisten = \"127.0.0.1:0\"\ncache_dir = \"modules\"\n";
    let modules = folder.path().join("modules");
    means(&folder, text, "cache_dir", &modules.display().to_string());
    let (node, _) = up(&folder, text);
    assert!(fs::read_dir(&modules).unwrap().next().is_some(), "the engine is in it");
    assert_eq!(node.end_by("TERM"), Some(0));
    fs::set_permissions(&modules, fs::Permissions::from_mode(0o777)).unwrap();
    let open = file(&folder, "n.toml", text);
    catena(&["up", &open]).failed(4, &["n.toml:3:13", "other users may write", "chmod go-w"]);
}

#[test]
fn an_nfs_server_is_used_as_whom_the_file_says() {
    let ganesha = GaneshaServer::start();
    chown(&ganesha.dir, Some(1234), Some(1234)).unwrap();
    let folder = folder();
    let service = |name: &str, more: &str| {
        let (export, nfs_port, mount_port) = (&ganesha.export, ganesha.nfs_port, ganesha.mount_port);
        format!(
            "[[service]]\nkind = \"nfs\"\nname = \"{name}\"\nhost = \"127.0.0.1\"\nexport = \"{export}\"\n\
             nfs_port = {nfs_port}\nmount_port = {mount_port}\n{more}\n"
        )
    };
    let text = "name = \"n\"\nlisten = \"127.0.0.1:0\"\n".to_owned()
        + &service("as.caller", "")
        + &service("as.some", "identity = { root = \"refuse\", uid_min = 1000, uid_max = 1999 }")
        + &service("as.either", "uid = 1234\ngid = 1234\nidentity = { act_as = \"caller_or_node\" }")
        + &service("as.node", "uid = 1234\ngid = 1234\nidentity = { act_as = \"node\" }");
    for (service, told) in [
        ("as.caller", "acts as its caller, and refuses callers without credentials"),
        ("as.some", "lets users from 1000 to 1999 through; user and group 0 are refused"),
        ("as.either", "as the node for callers without credentials"),
        ("as.node", "acts as the node, whoever calls; the node is uid 1234, gid 1234"),
    ] {
        means(&folder, &text, &format!("service {service}"), told);
    }

    let (node, address) = up(&folder, &text);
    let make = |service: &str, name: &str, credentials: &str| -> Ended {
        let (target, params) = (format!("{service}/create"), format!("{{\"path\": \"{name}\"}}"));
        let mut call = vec!["call", &target, &params, "--connect", &address];
        if !credentials.is_empty() {
            call.extend(["--credentials", credentials]);
        }
        catena(&call)
    };
    let user = |uid: u32| format!("{{\"uid\": {uid}, \"gid\": {uid}}}");
    for (number, (service, credentials, expected)) in [
        ("as.caller", user(1234), Ok(1234)),
        ("as.caller", user(4321), Err("the caller's credentials (uid 4321, gid 4321)")),
        ("as.caller", user(0), Err("the caller's credentials (uid 65534, gid 65534)")),
        ("as.caller", String::new(), Err("CredentialsNeeded")),
        ("as.some", user(1234), Ok(1234)),
        ("as.some", user(999), Err("CredentialsRefused")),
        ("as.some", user(0), Err("CredentialsRefused")),
        ("as.either", String::new(), Ok(1234)),
        ("as.either", user(4321), Err("the caller's credentials (uid 4321, gid 4321)")),
        ("as.node", String::new(), Ok(1234)),
        ("as.node", user(4321), Ok(1234)),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("file-{number}");
        let made = make(service, &name, &credentials);
        match expected {
            Ok(uid) => {
                assert_eq!(made.code, Some(0), "{service} {credentials}: {made:?}");
                assert_eq!(fs::metadata(ganesha.dir.join(name)).unwrap().uid(), uid, "{service} {credentials}");
            }
            Err(part) => made.failed(1, &[part]),
        }
    }
    assert_eq!(node.end_by("TERM"), Some(0));
}

#[test]
fn a_node_s_file_is_checked_without_starting_anything() {
    let folder = folder();
    let good = file(
        &folder,
        "n.toml",
        "name = \"n\"\nsite = \"mtv\"\n[[service]]\nkind = \"files\"\nname = \"f\"\nroot = \"later\"\n",
    );
    let people = catena(&["check", &good]);
    assert_eq!(people.code, Some(0), "{people:?}");
    for part in ["n, at site mtv", "nowhere: it only dials", "no other node", "as this process's user, whoever calls"] {
        assert!(people.out.contains(part), "{part:?} is not in:\n{}", people.out);
    }
    catena(&["check", &good, "--connect", "127.0.0.1:1"]).failed(2, &["--connect is for functions"]);
    let bad = file(&folder, "bad.toml", "name = \"n\"\nchaining_prox = \"127.0.0.1:1\"\n");
    catena(&["check", &bad]).failed(4, &["bad.toml:2:1", "did you mean chaining_proxy?"]);
}
