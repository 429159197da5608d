//! A split into eight against eight calls one after the other, at services that take a while.

use std::time::{Duration, Instant};

use catena::{Client, Node, Place, Sandbox, Service};

use crate::{Failure, stats::Spread, summary::Summary};

/// What each service takes.
const SERVICE: Duration = Duration::from_millis(5);
const BRANCHES: usize = 8;

const IN_A_ROW: &str = r#"import { call } from "catena";
export default async (targets) => { const got = []; for (const t of targets) got.push(await call(t, null)); return got.length; };"#;
const SPLIT: &str = r#"import { call, split } from "catena";
export default async (targets) => (await split(targets.map((t) => () => call(t, null)))).length;"#;

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..BRANCHES {
        let service = Service::new(format!("slow.{number}")).function("take", async |(): ()| {
            tokio::time::sleep(SERVICE).await;
            Ok(())
        });
        let mut builder = Node::builder(format!("slow{number}")).listen("127.0.0.1:0").sandbox(sandbox.clone());
        if let Some(first) = nodes.first().and_then(Node::address) {
            builder = builder.join(Place::new(first));
        }
        nodes.push(builder.service(service).start().await?);
    }
    let first = nodes[0].address().unwrap_or_default();
    let client = Client::builder("splits").sandbox(sandbox.clone()).join(Place::new(first)).connect().await?;
    let (row, split) = (client.javascript("row.js", IN_A_ROW).await?, client.javascript("split.js", SPLIT).await?);
    let targets: Vec<_> = (0..BRANCHES).map(|number| format!("slow.{number}/take")).collect();
    let (mut speedup, mut split_ms) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let sequential = took_ms(&client, &row, &targets).await?;
        let side_by_side = took_ms(&client, &split, &targets).await?;
        if round > 0 {
            speedup.push(sequential / side_by_side);
            split_ms.push(side_by_side);
        }
    }
    summary.plain("split8_speedup", "8 calls of 5 ms in a row / a split into 8", Spread::of(speedup));
    summary.plain("split8_ms", "the split, ms", Spread::of(split_ms));
    Ok(())
}

async fn took_ms(client: &Client, code: &catena::Code, targets: &[String]) -> Result<f64, Failure> {
    let began = Instant::now();
    let count: usize = client.run(code, targets).await?.value().await?;
    if count != BRANCHES {
        return Err(format!("{count} results of {BRANCHES}").into());
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
