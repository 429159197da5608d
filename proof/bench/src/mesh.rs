//! Four nodes that do nothing, on loopback; and the functions that visit them.

use catena::{Client, Code, Node, Place, Sandbox, SandboxConfig, Service};
use serde_json::json;

use crate::{Failure, server::Server};

/// The services, in the order in which a chain visits them.
pub(crate) const NAMES: [&str; 4] = ["one", "two", "three", "four"];

const VISIT_ALL: &str = r#"import { call } from "catena";
export default async function visit(names) {
  let value = null;
  for (const name of names) value = await call(name, value);
  return value;
}
"#;

pub(crate) struct Mesh {
    pub(crate) servers: Vec<Server>,
    pub(crate) client: Client,
    pub(crate) javascript: Code,
    pub(crate) compiled: Code,
}

pub(crate) fn sandbox() -> Result<Sandbox, Failure> {
    Ok(Sandbox::new(SandboxConfig::default())?)
}

/// A sample guest, as the guests' build leaves it.
pub(crate) fn sample(name: &str) -> Result<Vec<u8>, Failure> {
    let path = format!("{}/../../target/guests/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).map_err(|why| format!("{path}: {why}; build it first: make engine").into())
}

impl Mesh {
    pub(crate) async fn start(sandbox: &Sandbox) -> Result<Self, Failure> {
        let mut servers: Vec<Server> = Vec::new();
        for name in NAMES {
            let mut kind = vec!["node", name];
            kind.extend(servers.first().map(|first| first.address.as_str()));
            servers.push(Server::start(&kind).await?);
        }
        let first = servers[0].address.clone();
        let client = Client::builder("bench").sandbox(sandbox.clone()).join(Place::new(first)).connect().await?;
        let javascript = client.javascript("visit.js", VISIT_ALL).await?;
        let compiled = client.wasm("relay", &sample("relay")?).await?;
        Ok(Self { servers, client, javascript, compiled })
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

/// A node whose service does nothing.
pub(crate) async fn node(name: &str, join: Option<&str>) -> Result<Node, Failure> {
    let noop = Service::new(name).function_raw("noop", async |_, value| Ok(value));
    let builder = Node::builder(name).listen("127.0.0.1:0").service(noop);
    let builder = join.into_iter().fold(builder, |builder, first| builder.join(Place::new(first)));
    Ok(builder.start().await?)
}
