//! Chains of all kinds, as a node sees them over an hour: state, splits, sub-chains, exceptions, and functions never seen before.

use std::sync::Arc;

use catena::{Client, Code, Context, Node, Sandbox, Service, ServiceError, SubChain};
use serde_json::{Value as Json, json};

use crate::{Failure, mesh};

const SERVICES: [&str; 2] = ["left", "right"];

const THERE_AND_ON: &str = r#"import { call } from "catena";
export default async (state) => { await call("left/pass", null); await call("right/pass", null); return state.length; };"#;
const SPLITS: &str = r#"import { call, split } from "catena";
export default async () => (await split([0, 1, 2, 3].map((n) => () => call(n % 2 ? "left/pass" : "right/pass", n)))).length;"#;
const COMPOSES: &str = r#"import { call } from "catena";
export default async () => { await call("left/chain", null); await call("right/chain", null); return "composed"; };"#;
const CATCHES: &str = r#"import { call } from "catena";
export default async (all) => {
  try { await call("left/fail", null); } catch (why) { if (!all) throw why; }
  return call("right/pass", "caught");
};"#;

/// Two nodes, a client, and what it runs.
pub(crate) struct Soak {
    client: Client,
    _nodes: Vec<Node>,
    there_and_on: Code,
    splits: Code,
    composes: Code,
    catches: Code,
}

fn service(name: &str) -> Service {
    let code = Arc::new(tokio::sync::OnceCell::new());
    Service::new(name)
        .function_raw("pass", async |_, value| Ok(value))
        .function("fail", async |(): ()| Err::<(), _>(ServiceError::named("Failed", "as it was asked to")))
        .chain("chain", move |context: Context, (): ()| {
            let code = Arc::clone(&code);
            async move {
                let client = context.client();
                let code = code.get_or_try_init(|| client.javascript("sub.js", THERE_AND_ON)).await?;
                SubChain::new(code, "a sub-chain")
            }
        })
}

impl Soak {
    pub(crate) async fn start(sandbox: &Sandbox) -> Result<Self, Failure> {
        let mut nodes: Vec<Node> = Vec::new();
        for name in SERVICES {
            let builder = Node::builder(name).listen("127.0.0.1:0").sandbox(sandbox.clone()).service(service(name));
            let first = nodes.first().and_then(Node::address);
            nodes.push(mesh::joined(builder, first.as_ref(), None).start().await?);
        }
        let client = Client::builder("soaks").sandbox(sandbox.clone());
        let client = mesh::joined(client, nodes[0].address().as_ref(), None).connect().await?;
        mesh::known(&client, &SERVICES).await?;
        let there_and_on = client.javascript("on.js", THERE_AND_ON).await?;
        let splits = client.javascript("splits.js", SPLITS).await?;
        let composes = client.javascript("composes.js", COMPOSES).await?;
        let catches = client.javascript("catches.js", CATCHES).await?;
        Ok(Self { client, _nodes: nodes, there_and_on, splits, composes, catches })
    }

    /// The chain of this number: its kind is the same each time.
    pub(crate) async fn chain(&self, number: usize) -> Result<(), Failure> {
        let (code, input) = match number % 16 {
            0..=6 => (self.there_and_on, json!("little")),
            7..=9 => (self.there_and_on, json!("much ".repeat(4_000))),
            10 | 11 => (self.splits, Json::Null),
            12 | 13 => (self.composes, Json::Null),
            14 => (self.catches, json!(number % 32 == 14)),
            _ => {
                let source = format!("{THERE_AND_ON}\n// no. {number}\n");
                (self.client.javascript("new.js", &source).await?, json!("new"))
            }
        };
        let ended = self.client.run(&code, &input).await?.value::<Json>().await;
        match ended {
            Err(why) if number % 32 != 30 => Err(why.into()),
            _ => Ok(()),
        }
    }
}
