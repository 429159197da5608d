//! A node of the test's own, in this process, with services that a test needs and `catena dev` does not have.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU32, Ordering},
};

use catena::{Context, Node, Sandbox, SandboxConfig, Service, ServiceError, SubChain, Value};
use serde_json::Value as Json;
use tokio::runtime::Runtime;

/// One sandbox for all: the engine is compiled once.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(SandboxConfig::default()).unwrap());

/// The node `own`, with the service `own`, while this lives.
pub(crate) struct Own {
    pub(crate) address: String,
    /// How often `own/add` was done.
    pub(crate) effects: Arc<AtomicU32>,
    _node: Node,
    _runtime: Runtime,
}

impl Own {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let effects = Arc::new(AtomicU32::new(0));
        let service = service(&effects);
        let builder = Node::builder("own").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).service(service);
        let node = runtime.block_on(builder.start()).unwrap();
        let address = node.address().unwrap().to_string();
        Self { address, effects, _node: node, _runtime: runtime }
    }

    pub(crate) fn effects(&self) -> u32 {
        self.effects.load(Ordering::SeqCst)
    }
}

fn service(effects: &Arc<AtomicU32>) -> Service {
    let sub = r#"import { call, log } from "catena";
        export default async (input) => { log("in the sub-chain"); return [input, await call("own/where", null)]; };"#;
    let effects = Arc::clone(effects);
    Service::new("own")
        .function_in("where", async |context: Context, _: Json| Ok(context.node.to_string()))
        .function_in("who", async |context: Context, _: Json| {
            let who = context.credentials.as_ref().map(catena::from_value::<Json>).transpose();
            Ok(who.map_err(ServiceError::from)?.unwrap_or(Json::Null))
        })
        .function_raw("echo", async |_, value: Value| Ok(value))
        // What a command is about to write there cannot be written.
        .function("block", async |path: String| {
            std::fs::remove_file(&path)?;
            Ok(std::fs::create_dir(&path)?)
        })
        .function("stay", async |(): ()| std::future::pending::<Result<(), ServiceError>>().await)
        .function("fail", async |message: String| Err::<(), _>(ServiceError::named("Refused", message)))
        .replies("count", async |context: Context, count: u32| {
            for number in 0..count {
                context.preturn(&number).await?;
            }
            Ok(())
        })
        // As deep as a value may be.
        .replies("deep", async |context: Context, (): ()| {
            let nested = [vec![0x81; 64], vec![0]].concat();
            Ok(context.preturn_value(Value::from_cbor(nested.into()).unwrap()).await?)
        })
        .function("add", move |count: u32| {
            let effects = Arc::clone(&effects);
            async move { Ok(effects.fetch_add(count, Ordering::SeqCst) + count) }
        })
        .chain("sub", async move |context: Context, input: Json| {
            let code = context.client().javascript("sub.js", sub).await?;
            SubChain::new(&code, &input)
        })
}
