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
        gids = [7]
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
    assert_eq!(file.advertise.as_deref(), Some("mtv.example.org:0"));
    assert_eq!(file.limits.memory_bytes_max, 1 << 20);
    assert_eq!(file.limits.events_max, Limits::default().events_max);
    assert_eq!(file.policy.activations_max, 7);
    let names: Vec<_> = file.services.iter().map(ServiceFile::name).collect();
    assert_eq!(names, ["files.mtv", "nfs.mtv"]);
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
    check(&service("kind = \"probe\"\nname = \"p\"\nroot = \".\""), "5:8", &["takes no `root`", "`name` only"]);
    check(&service("kind = \"probe\"\nname = \"p/q\""), "4:8", &["slash"]);
    check(
        &service("kind = \"probe\"\nname = \"p\"\n[[service]]\nkind = \"ads\"\nname = \"p\""),
        "7:8",
        &["two services are called p"],
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
