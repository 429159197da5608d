//! Chains between processes of their own: branches, answers, functions, and nodes that die.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{Ended, Server, catena, file, folder};

/// Nodes `a`, `b`, ..., each a process that serves `probe.a`, `probe.b`, ...
struct Nodes {
    folder: tempfile::TempDir,
    servers: Vec<Server>,
    addresses: Vec<String>,
}

impl Nodes {
    /// `first`: what else the file of the first one says.
    fn start(count: u8, first: &str) -> Self {
        let mut nodes = Self { folder: folder(), servers: Vec::new(), addresses: Vec::new() };
        for index in 0..count {
            let name = char::from(b'a' + index);
            let join = nodes.addresses.first().map(|address| format!("join = [\"{address}\"]\n")).unwrap_or_default();
            let more = if index == 0 { first } else { "" };
            let text = format!(
                "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\n{join}{more}[[service]]\nkind = \"probe\"\nname = \"probe.{name}\"\n"
            );
            let server = Server::start(&["up", &file(&nodes.folder, &format!("{name}.toml"), &text), "--json"]);
            nodes.addresses.push(server.ready()["node"]["address"].as_str().unwrap().to_owned());
            nodes.servers.push(server);
        }
        nodes
    }

    fn run(&self, name: &str, source: &str, by: usize, options: &[&str]) -> Ended {
        let file = file(&self.folder, name, source);
        catena(&[&["run", &file, "--connect", &self.addresses[by], "--json"], options].concat())
    }
}

fn last(ended: &Ended) -> Value {
    ended.json_lines().pop().unwrap_or_else(|| panic!("{ended:?}"))
}

#[test]
fn branches_go_between_processes_and_merge_at_the_host_of_one_s_choice() {
    let nodes = Nodes::start(4, "");
    let source = r#"
        import { call, emit, log, split } from "catena";
        const visit = (at) => async () => {
            const node = await call(`probe.${at}/where`, null);
            emit(`${at} begins`);
            log(`at ${at}`);
            await call(`probe.${at}/echo`, at);
            emit(`${at} ends`);
            return node;
        };
        export default async () => {
            const both = await split([
                visit("a"),
                async () => split([visit("b"), visit("c")]),
            ], { at: "probe.d" });
            log("merged");
            return { both, home: await call("probe.b/where", null) };
        };"#;
    let ended = nodes.run("split.js", source, 0, &[]);
    let report = last(&ended);
    let result = &report["result"];
    assert_eq!(result["both"][1].as_array().map(Vec::len), Some(2), "{ended:?}");
    let text = ended.out.clone();
    let merged = report["log"].as_array().unwrap().iter().find(|line| line["text"] == "merged");
    assert_eq!(merged.unwrap_or_else(|| panic!("{ended:?}"))["node"], "d", "where no branch has been: {ended:?}");
    for at in ["a", "b", "c"] {
        let place = |what: &str| text.find(&format!("{at} {what}")).unwrap_or_else(|| panic!("{ended:?}"));
        assert!(place("begins") < place("ends"), "each branch's answers come in their order: {ended:?}");
        let line = report["log"].as_array().unwrap().iter().find(|line| line["text"] == format!("at {at}"));
        assert_eq!(line.unwrap_or_else(|| panic!("{ended:?}"))["node"], at, "{ended:?}");
    }
    let path: Vec<_> = report["path"].as_array().unwrap().iter().map(|host| host.as_str().unwrap()).collect();
    assert!(["a", "b", "c", "d"].iter().all(|host| path.contains(host)), "all hosts are on the path: {path:?}");
}

/// A function that is too large to ride along, so that it has to be fetched.
fn large(says: &str) -> String {
    let ballast = "x".repeat(100_000);
    format!(
        "import {{ call }} from \"catena\";
         const ballast = \"{ballast}\";
         export default async () => {{
             const first = await call(\"probe.b/where\", null);
             return [first, await call(\"probe.c/where\", null), \"{says}\", ballast.length];
         }};"
    )
}

#[test]
fn functions_come_from_the_repository_and_without_it_from_the_hop_before() {
    let mut nodes = Nodes::start(3, "repository = true\n");
    let before = last(&nodes.run("large.js", &large("before"), 1, &[]));
    assert_eq!((&before["result"][2], &before["result"][3]), (&json!("before"), &json!(100_000)), "{before}");
    nodes.servers.remove(0).kill();
    let after = last(&nodes.run("other.js", &large("after"), 1, &[]));
    assert_eq!((&after["result"][2], &after["result"][3]), (&json!("after"), &json!(100_000)), "{after}");
}

#[test]
fn a_node_that_is_gone_is_an_exception_of_the_branch_that_calls_it() {
    let mut nodes = Nodes::start(3, "");
    let source = r#"
        import { call, split } from "catena";
        const caught = (at) => async () => {
            try { return await call(`probe.${at}/echo`, at); } catch (why) { return [why.name, why.message]; }
        };
        export default async () => {
            await call("probe.a/where", null);
            return split([caught("a"), caught("b"), caught("c")]);
        };"#;
    assert_eq!(last(&nodes.run("there.js", source, 0, &[]))["result"], json!(["a", "b", "c"]));
    nodes.servers.pop().unwrap().kill();
    let report = last(&nodes.run("gone.js", source, 0, &[]));
    let result = &report["result"];
    assert_eq!((&result[0], &result[1]), (&json!("a"), &json!("b")), "{report}");
    assert_eq!(result[2][0], "NodeUnreachable", "{report}");
    assert!(result[2][1].as_str().unwrap().contains('c'), "{report}");
}
