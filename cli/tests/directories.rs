//! What nodes of `catena up` find outside of their mesh: services by multicast and in etcd, functions in an OCI registry. Each is the real thing, and comes and goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../catena/tests/common/held.rs"]
mod held;
#[path = "../../directory/core/tests/common/served.rs"]
mod served;
mod support;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use catena::{Client, Code, Hash, Place, Registry};
use catena_oci::OciRegistry;
use held::HeldPort;
use serde_json::json;
use served::Served;
use support::{Server, catena, file, folder};
use tempfile::TempDir;

/// What comes from outside is there by then, or does not come at all.
const SOON: Duration = Duration::from_secs(60);
/// Too large to ride along with a hop, so that it has to be fetched.
const FUNCTION_BYTES: usize = 200_000;

/// A node that serves `probe.NAME`, with this in its file besides; and its address.
fn up(folder: &TempDir, name: &str, more: &str) -> (Server, String) {
    let service = format!("[[service]]\nkind = \"probe\"\nname = \"probe.{name}\"\n");
    let text = format!("name = \"{name}\"\nlisten = \"127.0.0.1:0\"\n{more}{service}");
    let server = Server::start(&["up", &file(folder, &format!("{name}.toml"), &text), "--json"]);
    let address = server.ready()["node"]["address"].as_str().unwrap().to_owned();
    (server, address)
}

fn etcd(folder: &TempDir, port: u16) -> Served {
    let (at, peer) = (format!("http://127.0.0.1:{port}"), "http://127.0.0.1:0");
    let mut etcd = Command::new("etcd");
    etcd.args(["--data-dir".as_ref(), folder.path().join("etcd").as_os_str()]);
    etcd.args(["--listen-client-urls", &at, "--advertise-client-urls", &at, "--listen-peer-urls", peer]);
    etcd.args(["--initial-advertise-peer-urls", peer, "--initial-cluster", &format!("default={peer}")]);
    Served::start(etcd.arg("--unsafe-no-fsync"))
}

fn multicast(port: u16) -> String {
    format!("multicast = true\nmulticast_interface = \"127.0.0.1\"\nmulticast_port = {port}\n")
}

/// Until a resolver of the node at `from` says that this service is at `address`. Each question takes as long as a process does, and nobody tells when it is so.
fn resolved(resolver: &str, service: &str, from: &str, address: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let said = catena(&["resolve", service, "--connect", from, "--json"]).json();
        let found = said["resolvers"].as_array().unwrap().iter().find(|one| one["resolver"] == resolver).unwrap();
        if found["at"][0]["address"] == address {
            return;
        }
        assert!(Instant::now() < deadline, "{said}");
    }
}

fn echoes(service: &str, from: &str) {
    let echoed = catena(&["call", &format!("{service}/echo"), "\"hello\"", "--connect", from, "--json"]).json();
    assert_eq!(echoed["result"], "hello", "{echoed}");
}

#[test]
fn nodes_on_one_network_find_each_others_services_by_multicast() {
    let (folder, group) = (folder(), HeldPort::new());
    // None has joined another, and nothing says where they are.
    let names = format!("[names]\n{}", multicast(group.address.port()));
    let [(_one, one), (_two, two)] = ["one", "two"].map(|name| up(&folder, name, &names));
    for (service, from, address) in [("probe.two", &one, &two), ("probe.one", &two, &one)] {
        resolved("multicast", service, from, address);
        echoes(service, from);
    }
    let (_deaf, deaf) = up(&folder, "deaf", "");
    catena(&["call", "probe.one/echo", "1", "--connect", &deaf]).failed(1, &["UnknownService", "probe.one"]);
}

#[test]
fn a_node_that_is_not_told_where_etcd_is_finds_it_by_multicast() {
    let (folder, etcd_port, group) = (folder(), HeldPort::new(), HeldPort::new());
    let port = etcd_port.address.port();
    let _etcd = etcd(&folder, port);
    // Neither has joined the other, and multicast finds etcd here, and services only after it.
    let node = |name: &str, etcd: &str| {
        let by_etcd = format!("[names]\norder = [\"etcd\", \"multicast\"]\netcd = [{etcd}]\n");
        up(&folder, name, &(by_etcd + &multicast(group.address.port())))
    };
    let (_told, told) = node("told", &format!("\"http://127.0.0.1:{port}\""));
    let (_lone, lone) = node("lone", "");
    // It reads there what the other wrote, and writes there what the other reads.
    resolved("etcd", "probe.told", &lone, &told);
    resolved("etcd", "probe.lone", &told, &lone);
    echoes("probe.told", &lone);
}

#[test]
fn an_etcd_that_is_down_when_nodes_start_is_used_when_it_is_there() {
    let (folder, held) = (folder(), HeldPort::new());
    let port = held.address.port();
    let names = format!("[names]\netcd = [\"http://127.0.0.1:{port}\"]\n");
    let [(one, at_one), (_two, at_two)] = ["one", "two"].map(|name| up(&folder, name, &names));
    one.talk("not told what is served here; trying again");
    let said = catena(&["resolve", "probe.two", "--connect", &at_one, "--json"]).json();
    let by_etcd = said["resolvers"].as_array().unwrap().iter().find(|one| one["resolver"] == "etcd").unwrap();
    assert!(by_etcd["note"].as_str().unwrap().contains("does not answer"), "{said}");
    assert_eq!(catena(&["call", "probe.two/echo", "1", "--connect", &at_one]).code, Some(1));

    let _etcd = etcd(&folder, port);
    resolved("etcd", "probe.two", &at_one, &at_two);
    resolved("etcd", "probe.one", &at_two, &at_one);
    echoes("probe.two", &at_one);
}

fn docker_registry(folder: &TempDir, port: u16) -> Served {
    let storage = format!("storage: {{ filesystem: {{ rootdirectory: {} }} }}", folder.path().join("data").display());
    let text = format!("version: 0.1\nlog: {{ level: error }}\n{storage}\nhttp: {{ addr: 127.0.0.1:{port} }}\n");
    Served::start(Command::new("docker-registry").arg("serve").arg(file(folder, "registry.yml", &text)))
}

/// Two nodes that keep functions in a registry: the one that is the mesh's repository, and one that visitors come to.
struct Kept {
    keeper: Server,
    at_keeper: String,
    _visited: Server,
    at_visited: String,
}

impl Kept {
    fn start(folder: &TempDir, registry: &str) -> Self {
        let registry = format!("registry = \"{registry}\"\n");
        let (keeper, at_keeper) = up(folder, "keeper", &format!("{registry}repository = true\n"));
        let (_visited, at_visited) = up(folder, "visited", &format!("{registry}join = [\"{at_keeper}\"]\n"));
        Self { keeper, at_keeper, _visited, at_visited }
    }

    /// Somebody who is linked with both, so that his functions go to the repository at once.
    async fn member(&self) -> Client {
        let builder = Client::builder("member").join(Place::new(&self.at_keeper));
        builder.join(Place::new(&self.at_visited)).connect().await.unwrap()
    }

    /// Runs a function for somebody who is linked with the one node, and tells whether he had to bring it there.
    async fn brings(&self, number: u8) -> bool {
        let visitor = Client::builder("visitor").entry_only().join(Place::new(&self.at_visited));
        let visitor = visitor.connect().await.unwrap();
        run(&visitor, number).await;
        visitor.traffic().sent_bytes > FUNCTION_BYTES as u64
    }
}

async fn run(client: &Client, number: u8) -> Code {
    let head = "import { call } from \"catena\"; export default async (text) => call(\"probe.visited/echo\", text);";
    let source = format!("{head}\n// {}", "x".repeat(FUNCTION_BYTES));
    let code = client.javascript(&format!("{number}.js"), &source).await.unwrap();
    let echoed = client.run(&code, &json!("hello")).await.unwrap().value::<String>().await;
    assert_eq!(echoed.unwrap(), "hello");
    code
}

/// Until the registry has it: nodes bring it there beside what they do.
async fn is_kept(registry: &OciRegistry, code: Hash) {
    let looked = async {
        while !matches!(registry.get(code, 2 * FUNCTION_BYTES).await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, looked).await.expect("the function is not in the registry");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_outlive_every_node_in_a_registry_and_go_on_without_it() {
    let (folder, held) = (folder(), HeldPort::new());
    let port = held.address.port();
    let url = format!("http://127.0.0.1:{port}/functions");
    let (server, registry) = (docker_registry(&folder, port), OciRegistry::open(&url).unwrap());
    let nodes = Kept::start(&folder, &url);
    let first = run(&nodes.member().await, 1).await;
    is_kept(&registry, first.hash()).await;
    drop(nodes);

    // Nobody of those who run now has had it.
    let nodes = Kept::start(&folder, &url);
    assert!(!nodes.brings(1).await, "it did not come from the registry");
    drop(server);
    // Without the registry nodes have what they had, ...
    assert!(!nodes.brings(1).await, "what is known is not fetched again");
    // ... run what they are given, and say that it is not kept.
    run(&nodes.member().await, 2).await;
    let said = nodes.keeper.talk("a function is not kept there: nodes have it as long as they run");
    assert!(said.contains(&url) && said.contains("does not answer"), "{said}");
    drop(nodes);

    // With nobody who has it but whoever brings it.
    let nodes = Kept::start(&folder, &url);
    assert!(nodes.brings(1).await);
    let said = nodes.keeper.talk("a function could not be fetched");
    assert!(said.contains(&url) && said.contains("does not answer"), "{said}");
}
