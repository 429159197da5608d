#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

fn read(toml: &str) -> Result<NodeFile, Failure> {
    let text = Text::new(Path::new("conf/n.toml"), toml.as_bytes().to_vec())?;
    let file: file::File = toml::from_str(text.as_str()).map_err(|why| text.toml(&why))?;
    NodeFile::checked(file, &text)
}

/// The whole text of the failure.
#[track_caller]
fn refused(toml: &str) -> String {
    match read(toml) {
        Ok(_) => panic!("it was taken: {toml}"),
        Err(why) => why.text().unwrap(),
    }
}

#[track_caller]
fn check(toml: &str, place: &str, parts: &[&str]) {
    let text = refused(toml);
    assert!(text.starts_with(&format!("conf/n.toml:{place}: error:")), "{text}");
    assert!(text.contains('^'), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn a_whole_file_is_taken() {
    let file = read(
        r#"
        name = "mtv"
        site = "mtv"
        listen = "0.0.0.0:7400"
        advertise = "mtv.example.org:0"
        join = ["a:1", { address = "b:2", site = "cam" }]
        repository = true
        untold_dials_max = 0
        memory_bytes_max = 268_435_456
        shaped = "paper"
        [[service]]
        kind = "files"
        name = "files.mtv"
        root = "data"
        [[service]]
        kind = "nfs"
        name = "nfs.mtv"
        host = "nas"
        export = "/srv"
        uid = 1000
        gid = 1000
        gids = [7]
        durable = ["create"]
        identity = { act_as = "caller_or_node", uid_max = 1999 }
        [[service]]
        kind = "replicated"
        name = "safe.mtv"
        primary = "files.mtv"
        backup = "files.red"
        [step_store]
        file = "steps"
        age_max_ms = 5
        [limits]
        memory_bytes_max = 1_048_576
        [policy]
        activations_max = 7
        "#,
    );
    let file = file.map_err(|why| why.text()).ok().unwrap();
    assert_eq!(file.join[1].site.as_deref(), Some("cam"));
    assert_eq!((file.join[0].address.as_str(), file.join[1].address.as_str()), ("a:1", "b:2"));
    assert!(file.shaped && file.repository);
    assert_eq!((file.untold_dials_max, file.memory_bytes_max), (Some(0), Some(256 << 20)));
    assert_eq!(file.advertise.as_deref(), Some("mtv.example.org:0"));
    assert_eq!(file.limits.memory_bytes_max, 1 << 20);
    assert_eq!(file.limits.events_max, Limits::default().events_max);
    assert_eq!(file.policy.activations_max, 7);
    let (store, limits) = file.step_store.unwrap();
    assert_eq!((store, limits.age_max_ms), ("conf/steps".into(), 5));
    let names: Vec<_> = file.services.iter().map(ServiceFile::name).collect();
    assert_eq!(names, ["files.mtv", "nfs.mtv", "safe.mtv"]);
}

#[test]
fn an_unknown_key_has_its_line_and_the_nearest_one() {
    check("name = \"a\"\nlisen = \"h:1\"\n", "2:1", &["unknown field `lisen`", "did you mean listen?"]);
    check("name = \"a\"\n[limits]\nmemory_bytes = 5\n", "3:1", &["did you mean memory_bytes_max?"]);
    check("name = \"a\"\n[policy]\nactivation_max = 5\n", "3:1", &["did you mean activations_max?"]);
    check("name = \"a\"\njoin = [{ adress = \"h:1\" }]\n", "2:11", &["did you mean address?"]);
    check("name = \"a\"\n[[services]]\n", "2:3", &["did you mean service?"]);
}

#[test]
fn a_node_with_too_little_memory_does_not_start() {
    let (text, least) = (|bytes| format!("name = \"a\"\nmemory_bytes_max = {bytes}\n"), catena::MEMORY_BYTES_MIN);
    check(&text(least - 1), "2:20", &["a node needs at least 134217728", "make it larger"]);
    assert_eq!(read(&text(least)).map_err(|why| why.text()).ok().unwrap().memory_bytes_max, Some(least));
}

#[test]
fn a_primary_is_another_service_of_the_same_node() {
    let two = |primary: &str| {
        format!(
            "name = \"a\"\n[[service]]\nkind = \"files\"\nname = \"files.a\"\nroot = \"d\"\n\
             [[service]]\nkind = \"replicated\"\nname = \"safe\"\nprimary = \"{primary}\"\nbackup = \"files.b\"\n"
        )
    };
    check(&two("file.a"), "9:11", &["\"file.a\" is no other service of this node", "did you mean files.a?"]);
    check(&two("safe"), "9:11", &["is no other service", "files.a"]);
    let alone = "name = \"a\"\n[[service]]\nkind = \"replicated\"\nname = \"safe\"\n";
    check(alone, "3:8", &["needs `primary`", "add primary ="]);
    check(&format!("{alone}primary = \"x\"\nbackup = \"y\"\n"), "5:11", &["add one of kind files or nfs"]);
}

#[test]
fn an_unknown_kind_or_a_wrong_type_has_its_line() {
    let service = |lines: &str| format!("name = \"a\"\n[[service]]\n{lines}\n");
    check(&service("kind = \"file\"\nname = \"x\""), "3:8", &["unknown variant `file`", "did you mean files?"]);
    check(&service("kind = 7\nname = \"x\""), "3:8", &["7"]);
    check("name = 7\n", "1:8", &["expected a string"]);
    check("name = \"a\"\njoin = [7]\n", "2:9", &["host:port"]);
    check("name = \"a\"\nshaped = \"papr\"\n", "2:10", &["did you mean paper?"]);
    check("name = \"a\"\n[limits]\nevents_max = -1\n", "3:14", &["-1"]);
    check("name = \"a\"\nname = \"b\"\n", "2:1", &["duplicate key"]);
    check("name = \"a\nb\"\n", "2:3", &[]);
}

#[test]
fn keys_belong_to_kinds() {
    let service = |lines: &str| format!("name = \"a\"\n[[service]]\n{lines}\n");
    check(&service("kind = \"files\"\nname = \"f\""), "3:8", &["needs `root`", "add root = "]);
    check(&service("kind = \"nfs\"\nname = \"f\"\nhost = \"h\""), "3:8", &["needs `export`"]);
    check(&service("kind = \"probe\"\nname = \"p\"\nroot = \".\""), "5:8", &["takes no `root`", "`durable` only"]);
    check(&service("kind = \"probe\"\nname = \"p/q\""), "4:8", &["slash"]);
    check(
        &service("kind = \"probe\"\nname = \"p\"\n[[service]]\nkind = \"ads\"\nname = \"p\""),
        "7:8",
        &["two services are called p"],
    );
}

#[test]
fn the_file_in_the_help_is_taken() {
    let example = crate::commands::up::EXAMPLE;
    let longest = example.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(98), "a line of {longest:?} characters is wrapped in the help, and no TOML then");
    let file = read(example).map_err(|why| why.text()).ok().unwrap();
    let told = file.meaning().into_iter().map(|(what, means)| format!("{what}: {means}\n")).collect::<String>();
    for part in ["chains run theirs at 10.0.0.8:7400", "durable: create, write", "refuses callers without", "to 59999"]
    {
        assert!(told.contains(part), "{part:?} is not in:\n{told}");
    }
}

#[test]
fn what_may_be_done_with_a_segment_is_told() {
    let text = "name = \"a\"\n[[segment]]\nname = \"s\"\nbytes = 64\nanyone = [\"read\", \"cas\"]\n[[segment]]\nname = \"t\"\nbytes = 8\n";
    let told = read(text).map_err(|why| why.text()).ok().unwrap().meaning();
    let of = |what: &str| told.iter().find(|(key, _)| key == what).map(|(_, means)| means.as_str());
    assert_eq!(of("segment s"), Some("64 bytes; anyone may read, cas"));
    assert_eq!(of("segment t"), Some("8 bytes; nobody may use it"));
}

#[test]
fn whose_code_runs_is_said_once() {
    let both = "name = \"a\"\nruns_guests = true\nchaining_proxy = \"h:1\"\n";
    check(both, "2:15", &["runs no foreign code", "take out `runs_guests`"]);
    for none in ["runs_guests = false", "chaining_proxy = \"h:1\""] {
        let text = format!("name = \"a\"\nhosts_chains_for_others = true\n{none}\n");
        check(&text, "2:27", &["cannot host chains for others"]);
    }
    check("name = \"a\"\nchaining_proxy = \"h\"\n", "2:18", &["no address"]);
    check("name = \"a\"\nruns_guest = false\n", "2:1", &["did you mean runs_guests?"]);
    let guests = |more: &str| read(&format!("name = \"a\"\n{more}")).map_err(|why| why.text()).ok().unwrap().guests;
    assert_eq!(guests(""), Guests::Own);
    assert_eq!(guests("hosts_chains_for_others = true"), Guests::ForOthers);
    assert_eq!(guests("runs_guests = false"), Guests::Nobodys { proxy: None });
    let proxied = "chaining_proxy = \"h:1\"\nhosts_chains_for_others = false";
    assert_eq!(guests(proxied), Guests::Nobodys { proxy: Some("h:1".into()) });
}

#[test]
fn durable_functions_are_there_and_have_a_store() {
    let with = |store: &str, durable: &str| {
        format!("name = \"a\"\n{store}\n[[service]]\nkind = \"probe\"\nname = \"p\"\ndurable = [{durable}]\n")
    };
    check(&with("", "\"echo\""), "6:11", &["has none", "add [step_store]"]);
    check(&with("step_store = { file = \"s\" }", "\"ecko\""), "6:12", &["no function \"ecko\"", "did you mean echo?"]);
    check(&with("[step_store]", ""), "2:1", &["missing field `file`"]);
    check(&with("[step_store]\nfile = \"s\"\nfiel = 1", ""), "4:1", &["did you mean file?"]);
    check(&with("[step_store]\nfile = \"s\"\nbytes_max = 0", ""), "4:13", &["bytes_max is 0"]);
    assert!(read(&with("", "")).is_ok());
}

#[test]
fn a_bridge_acts_as_whom_the_file_names_and_as_nobody_else() {
    let with = |lines: &str| {
        format!("name = \"a\"\n[[service]]\nkind = \"nfs\"\nname = \"f\"\nhost = \"h\"\nexport = \"/\"\n{lines}\n")
    };
    assert!(read(&with("")).is_ok());
    check(&with("uid = 7"), "7:7", &["`uid` is never used", "act_as = \"node\""]);
    check(&with("gids = [7]"), "7:8", &["`gids` is never used"]);
    check(&with("identity = { act_as = \"node\" }"), "3:8", &["needs `uid`"]);
    check(&with("uid = 7\nidentity = { act_as = \"caller_or_node\" }"), "3:8", &["needs `gid`"]);
    check(&with("uid = 7\ngid = 7\nidentity = { act_as = \"node\", uid_min = 5 }"), "9:12", &["have no meaning"]);
    check(&with("identity = { uid_min = 5, uid_max = 4 }"), "7:12", &["nobody is let through"]);
    check(&with("identity = { act_as = \"calle\" }"), "7:23", &["did you mean caller?"]);
    check(&with("identity = { act = \"node\" }"), "7:14", &["did you mean act_as?"]);
}

#[test]
fn how_services_are_found_is_said_once_and_in_an_order() {
    let with = |lines: &str| format!("name = \"a\"\n[names]\n{lines}\n");
    let found = |lines: &str| read(&with(lines)).map_err(|why| why.text()).ok().unwrap().names.meaning();
    assert_eq!(read("name = \"a\"").ok().unwrap().names.meaning(), "services are found by its mesh");
    assert!(
        found("file = \"n.toml\"\nmulticast = true")
            .ends_with("its mesh, then the file conf/n.toml, then whoever answers on its network")
    );
    assert!(
        found("etcd = [\"http://h:1\"]\norder = [\"etcd\", \"mesh\"]")
            .ends_with("by etcd at http://h:1, then its mesh")
    );
    check(&with("multicast_port = 7"), "3:18", &["without multicast", "add multicast = true"]);
    check(&with("etcd = []"), "3:8", &["only be found by multicast", "http://10.0.0.5:2379"]);
    check(&with("etcd = [\"h:1\"]"), "3:8", &["\"h:1\" is no endpoint", "http://10.0.0.5:2379"]);
    check(&with("order = [\"mesh\", \"file\"]"), "3:18", &["file is to be asked", "add `file`"]);
    check(&with("order = [\"mesh\", \"mesh\"]"), "3:18", &["mesh is there twice"]);
    check(&with("multicast = true\norder = [\"mesh\"]"), "4:9", &["multicast is there", "never be asked"]);
    check(&with("order = [\"mehs\"]"), "3:10", &["did you mean mesh?"]);
    check(&with("files = 7"), "3:1", &["did you mean file?"]);
    check(
        "name = \"a\"\nregistry = \"here\"\n",
        "2:12",
        &["no repository of a registry", "http://host:5000/functions"],
    );
}

#[test]
fn values_are_checked() {
    check("name = \"a\"\nlisten = \"7400\"\n", "2:10", &["no address", "HOST:PORT"]);
    check("name = \"a\"\nadvertise = \"here\"\n", "2:13", &["no address", "HOST:PORT"]);
    check("name = \"a\"\njoin = [\"x:1\", \"nowhere\"]\n", "2:16", &["no address"]);
    check("name = \"a\"\nshaped = \"paper\"\n", "2:10", &["add `site`"]);
    check("name = \"a\"\nsite = \"mtw\"\nshaped = \"paper\"\n", "2:8", &["did you mean mtv?"]);
    check("name = \"a\"\n[limits]\nevents_max = 0\n", "3:14", &["events_max is 0"]);
    check("", "1:1", &["missing field `name`"]);
    check("name = \"\"\n", "1:8", &["is no name"]);
}
