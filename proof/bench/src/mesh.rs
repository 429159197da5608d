//! The nodes of the figures: what runs in each server's process, and the client of four that do nothing.

use std::{path::Path, sync::Arc, time::Duration};

use catena::{
    Client, Code, Limits, LinkShape, Node, NodeBuilder, Place, Policy, Sandbox, SandboxConfig, Service, Topology,
};
use catena_apps::replicated::{BACKUP, PRIMARY, REPLICATED, SOURCE, replicated};
use catena_files::Directory;
use serde_json::json;

use crate::{Failure, adaptive, micro, replies, server::Server, split};

/// The services, in the order in which a chain visits them.
pub(crate) const NAMES: [&str; 4] = ["one", "two", "three", "four"];
/// Compiled modules: without them, each server would compile the engine first.
const MODULES: &str = "target/bench/modules";

/// For functions that wait for a processor beside many others.
const STEP_WALL_MS_MAX: u32 = 20_000;
/// How long nodes may take to know each other, and how often to ask.
const KNOWN_MAX: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(20);

const VISIT_ALL: &str = r#"import { call } from "catena";
export default async function visit(names) {
  let value = null;
  for (const name of names) value = await call(name, value);
  return value;
}
"#;

/// A client of four nodes, and the functions that visit them.
pub(crate) struct Mesh {
    client: Client,
    javascript: Code,
    compiled: Code,
}

pub(crate) fn sandbox() -> Result<Sandbox, Failure> {
    let limits = Limits { step_wall_ms_max: STEP_WALL_MS_MAX, ..Limits::default() };
    Ok(Sandbox::new(SandboxConfig { limits, cache_dir: Some(MODULES.into()), ..SandboxConfig::default() })?)
}

/// A sample guest, as the guests' build leaves it.
pub(crate) fn sample(name: &str) -> Result<Vec<u8>, Failure> {
    let path = format!("{}/../../target/guests/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).map_err(|why| format!("{path}: {why}; build it first: make engine").into())
}

impl Mesh {
    /// Four servers that do nothing, each with a node whose links are TCP, one of another mesh that keeps no custody, and one of a third mesh, which knows that all
    /// are on one host; and the clients of these meshes.
    pub(crate) async fn start(sandbox: &Sandbox) -> Result<(Vec<Server>, [Self; 3]), Failure> {
        let mut servers: Vec<Server> = Vec::new();
        for name in NAMES {
            let mut kind = vec!["noop", name];
            kind.extend(servers.first().into_iter().flat_map(|first| first.address.split(' ')));
            servers.push(Server::start(&kind).await?);
        }
        let [full, bare, near] = servers[0].address.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("a server of three nodes said {:?}", servers[0].address).into());
        };
        let client = || Client::builder("bench").sandbox(sandbox.clone());
        let meshes = [
            Self::at(client().without_shared_memory(), full).await?,
            Self::at(client().without_shared_memory().policy(without_custody()), bare).await?,
            Self::at(client(), near).await?,
        ];
        Ok((servers, meshes))
    }

    async fn at(client: NodeBuilder, address: &str) -> Result<Self, Failure> {
        let client = client.join(Place::new(address)).connect().await?;
        let javascript = client.javascript("visit.js", VISIT_ALL).await?;
        let compiled = client.wasm("relay", &sample("relay")?).await?;
        Ok(Self { client, javascript, compiled })
    }

    pub(crate) async fn chain_js(&self) -> Result<(), Failure> {
        let targets: Vec<_> = NAMES.iter().map(|name| format!("{name}/noop")).collect();
        Ok(self.client.run(&self.javascript, &targets).await?.value().await?)
    }

    pub(crate) async fn chain_wasm(&self) -> Result<(), Failure> {
        let targets: Vec<_> = NAMES.iter().map(|name| format!("{name}/noop")).collect();
        let input = json!({ "hops": targets, "value": null });
        Ok(self.client.run(&self.compiled, &input).await?.value().await?)
    }

    pub(crate) async fn call(&self) -> Result<(), Failure> {
        Ok(self.client.call::<_, ()>(NAMES[0], "noop", &()).await?)
    }
}

/// Remembers no step, and neither says nor awaits a sign of life.
fn without_custody() -> Policy {
    Policy {
        step_records_max: 0,
        step_payload_bytes_max: 0,
        heartbeat_interval_us: u64::MAX / 4,
        heartbeat_timeout_us: u64::MAX / 4,
        accept_timeout_us: u64::MAX / 4,
        ..Policy::default()
    }
}

/// The paper's sites, and one that is near the client by a thin link.
pub(crate) fn topology() -> Arc<Topology> {
    Arc::new(Topology::paper().with("bei", "thin", LinkShape::new(10_000, 300_000)))
}

/// Starts the nodes of a server process, which are to be held; also returns their addresses, in one line. `kind` is one of `noop NAME [JOIN JOIN_BARE
/// JOIN_NEAR]`, `placed NAME SITE [JOIN]`, `slow NAME [JOIN]`, `replying NAME [JOIN]`, `tasks NAME`, `stressed KIND`, `data NAME SITE LISTEN [JOIN]`,
/// `files ROLE SITE FOLDER [JOIN]...`, `store SITE FOLDER [JOIN]`.
pub(crate) async fn serve(kind: &[&str]) -> Result<(Vec<Node>, String), Failure> {
    let near = |name: &str| Node::builder(name).cache_dir(MODULES).listen("127.0.0.1:0");
    // Without shared memory: like the peers that these are compared with, and like services on different machines.
    let node = |name: &str| near(name).without_shared_memory();
    let shaped = |name: &str, site: &str| near(name).site(site).topology(topology());
    let nodes = match *kind {
        ["noop", name, ref joins @ ..] => {
            // All nodes share what a process has once.
            let sandbox = sandbox()?;
            let noop = || Service::new(name).function_raw("noop", async |_, value| Ok(value));
            let builders = [node(name), node(name).policy(without_custody()), near(name)];
            let mut nodes = Vec::new();
            for (at, builder) in builders.into_iter().enumerate() {
                let builder = builder.sandbox(sandbox.clone()).service(noop());
                nodes.push(joined(builder, joins.get(at), None).start().await?);
            }
            nodes
        }
        ["placed", name, site, ref joins @ ..] => {
            let noop = Service::new(name).function_raw("noop", async |_, value| Ok(value));
            // Whom it joins is in Mountain View.
            vec![joined(shaped(name, site).service(noop), joins, Some("mtv")).start().await?]
        }
        ["slow", name, ref joins @ ..] => {
            vec![joined(node(name).service(split::service(name)), joins, None).start().await?]
        }
        ["replying", name, ref joins @ ..] => {
            let replier = node(name).sandbox(sandbox()?).service(replies::service(name));
            vec![joined(replier, joins, None).start().await?]
        }
        ["tasks", name] => vec![node(name).sandbox(sandbox()?).service(micro::service(name)).start().await?],
        ["stressed", kind] => vec![node(kind).sandbox(sandbox()?).service(micro::stressed(kind)).start().await?],
        ["data", name, site, listen, ref joins @ ..] => {
            let builder = shaped(name, site).listen(listen).service(adaptive::service(name));
            vec![joined(builder, joins, Some(site)).start().await?]
        }
        ["files", role, site, folder, ref joins @ ..] => {
            let files = |name| -> Result<Service, Failure> {
                Ok(catena_apps::files::service(name, Arc::new(Directory::open(Path::new(folder))?)))
            };
            let builder = match role {
                SOURCE => shaped(role, site).service(files(SOURCE)?),
                PRIMARY => shaped(role, site).service(files(PRIMARY)?).service(replicated(REPLICATED, PRIMARY, BACKUP)),
                _ => shaped(role, site).service(files(BACKUP)?),
            };
            // Whom it joins is in Mountain View.
            vec![joined(builder, joins, Some("mtv")).start().await?]
        }
        ["store", site, folder, ref joins @ ..] => {
            let files = Arc::new(Directory::open(Path::new(folder))?);
            let builder = shaped(site, site).service(catena_apps::files::service(&format!("files.{site}"), files));
            vec![joined(builder, joins, Some("mtv")).start().await?]
        }
        _ => return Err(format!("{kind:?} is no server").into()),
    };
    let addresses: Vec<_> = nodes.iter().filter_map(Node::address).collect();
    let said = addresses.join(" ");
    Ok((nodes, said))
}

/// Waits until a client knows all these services.
pub(crate) async fn known(client: &Client, services: &[&str]) -> Result<(), Failure> {
    let all = async {
        loop {
            let known = client.services().await;
            if services.iter().all(|service| known.iter().any(|entry| entry.service == *service)) {
                return;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    tokio::time::timeout(KNOWN_MAX, all).await.map_err(|_| format!("the client does not find {services:?}").into())
}

/// A node that joins the nodes at these addresses; all of them are in one site.
pub(crate) fn joined<'a>(
    builder: NodeBuilder,
    addresses: impl IntoIterator<Item = &'a &'a str>,
    site: Option<&str>,
) -> NodeBuilder {
    let place = |address: &&str| Place { address: (*address).to_owned(), site: site.map(str::to_owned) };
    addresses.into_iter().fold(builder, |builder, address| builder.join(place(address)))
}
