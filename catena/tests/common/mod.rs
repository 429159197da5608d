//! A small mesh of real nodes over real sockets, for the tests.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{Client, Code, Context, Exception, Node, Place, Sandbox, SandboxConfig, Service, ServiceError};
use serde::Serialize;
use serde_json::Value as Json;
use tokio::sync::Semaphore;

/// Far more than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// One sandbox for all: its engine takes some milliseconds to load.
pub(crate) static SANDBOX: LazyLock<Sandbox> =
    LazyLock::new(|| Sandbox::new(SandboxConfig::default()).expect("a sandbox"));

/// A result that no message can hold.
struct Unencodable;

impl Serialize for Unencodable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("on purpose"))
    }
}

/// A service for tests: what it does shows in `effects`.
pub(crate) fn service(name: &str, effects: &Arc<AtomicU64>) -> Service {
    let (add, here) = (Arc::clone(effects), Arc::clone(effects));
    let gate = Arc::new(Semaphore::new(0));
    let (hold, open) = (Arc::clone(&gate), gate);
    Service::new(name)
        .function("echo", async |value: Json| Ok(value))
        .function_in("where", async |context: Context, _: Json| Ok(context.node.to_string()))
        .function("fail", async |message: String| Err::<(), _>(ServiceError::named("Failed", message)))
        .function("unencodable", async |(): ()| Ok(Unencodable))
        .function("panic", async |_: Json| -> Result<(), ServiceError> { panic!("on purpose") })
        .function("sleep", async |ms: u64| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(())
        })
        // Lets one `hold` go, one that comes later too.
        .function("open", move |_: Json| {
            open.add_permits(1);
            std::future::ready(Ok(()))
        })
        .function("hold", move |_: Json| {
            let hold = Arc::clone(&hold);
            async move {
                hold.acquire().await?.forget();
                Ok(())
            }
        })
        .function("blob", async |bytes: usize| Ok(serde_json::Value::String("x".repeat(bytes))))
        .function("add", move |_: Json| {
            let add = Arc::clone(&add);
            async move { Ok(add.fetch_add(1, Ordering::SeqCst) + 1) }
        })
        .function("count", move |_: Json| {
            let here = Arc::clone(&here);
            async move { Ok(here.load(Ordering::SeqCst)) }
        })
}

pub(crate) struct Mesh {
    pub(crate) nodes: Vec<Node>,
    pub(crate) client: Client,
    pub(crate) effects: Vec<Arc<AtomicU64>>,
}

/// Nodes `a`, `b`, ... each with a service of the same name, and a client that has joined them.
pub(crate) async fn mesh(count: usize) -> Mesh {
    mesh_with(count, |builder| builder).await
}

pub(crate) async fn mesh_with(count: usize, adjust: impl Fn(catena::NodeBuilder) -> catena::NodeBuilder) -> Mesh {
    let mut nodes: Vec<Node> = Vec::new();
    let mut effects = Vec::new();
    for index in 0..count {
        let name = char::from(b'a' + index as u8).to_string();
        let counter = Arc::new(AtomicU64::new(0));
        let mut builder = adjust(Node::builder(&name))
            .listen("127.0.0.1:0")
            .sandbox(SANDBOX.clone())
            .service(service(&name, &counter));
        if let Some(first) = nodes.first() {
            builder = builder.join(Place::new(first.address().unwrap()));
        }
        nodes.push(builder.start().await.expect("a node"));
        effects.push(counter);
    }
    let first = nodes[0].address().unwrap().to_owned();
    let client = Client::builder("client").sandbox(SANDBOX.clone()).join(Place::new(first)).connect().await.unwrap();
    Mesh { nodes, client, effects }
}

impl Mesh {
    pub(crate) async fn code(&self, source: &str) -> Code {
        self.client.javascript("test.js", source).await.expect("the function loads")
    }

    pub(crate) async fn run(&self, source: &str, input: impl Serialize) -> Result<Json, Exception> {
        let code = self.code(source).await;
        self.client.run(&code, &input).await?.value().await
    }
}
