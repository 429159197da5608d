//! Adaptive chains against the better of always moving and never moving, over links shaped as the paper's sites.

use std::{sync::Arc, time::Instant};

use catena::{Client, Mode, Node, Place, RunOptions, Sandbox, Service, Topology, to_value};
use serde_json::{Value as Json, json};

use crate::{Failure, stats::Spread, summary::Summary};

/// What makes moving pay, and what makes staying pay.
struct Case {
    name: &'static str,
    /// Bytes that the function keeps from the start to the end.
    state_bytes: usize,
    /// Bytes of each result.
    result_bytes: usize,
    calls: usize,
}

const CASES: [Case; 4] = [
    Case { name: "little state, large results", state_bytes: 10, result_bytes: 100_000, calls: 4 },
    Case { name: "much state, one small result", state_bytes: 400_000, result_bytes: 10, calls: 1 },
    Case { name: "much state, many small results", state_bytes: 200_000, result_bytes: 10, calls: 6 },
    Case { name: "little of either", state_bytes: 10, result_bytes: 10, calls: 2 },
];

/// The state is made at the origin, of letters that no compression would find alike.
const FUNCTION: &str = r#"import { call } from "catena";
export default async function work({ name, state_bytes, result_bytes, calls }) {
  const state = new Uint8Array(state_bytes);
  for (let i = 0; i < state_bytes; i++) state[i] = Math.random() * 256;
  let sum = 0;
  for (let i = 0; i < calls; i++) sum += (await call(`data.${i % 2}/get`, result_bytes)).length;
  return [sum, state.length, name];
}
"#;
const MODES: [Mode; 3] = [Mode::Chain, Mode::Interactive, Mode::Adaptive];

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let topology = Arc::new(Topology::paper());
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..2 {
        let service =
            Service::new(format!("data.{number}")).function("get", async |bytes: usize| Ok("x".repeat(bytes)));
        let mut builder = Node::builder(format!("data{number}")).site("mtv").topology(Arc::clone(&topology));
        for node in &nodes {
            builder = builder.join(place(node));
        }
        nodes.push(builder.listen("127.0.0.1:0").sandbox(sandbox.clone()).service(service).start().await?);
    }
    let builder = Client::builder("adapts").site("bei").topology(topology).sandbox(sandbox.clone());
    let client = builder.join(place(&nodes[0])).join(place(&nodes[1])).connect().await?;
    let mut worst = Vec::new();
    for case in CASES {
        let over = over_the_better_pct(&client, &case, rounds).await?;
        eprintln!("  {}: adaptive is {over:.1}% over the better of the two", case.name);
        worst.push(over);
    }
    let worst = worst.into_iter().fold(f64::MIN, f64::max);
    summary.at_most(
        "adaptive_worst_pct",
        "adaptive over the better of chain and RPC, worst case, %",
        Spread::of(vec![worst]),
        5.0,
    );
    Ok(())
}

fn place(node: &Node) -> Place {
    Place::new(node.address().unwrap_or_default()).in_site("mtv")
}

async fn over_the_better_pct(client: &Client, case: &Case, rounds: usize) -> Result<f64, Failure> {
    // A function of its own for each case, since what is learnt is learnt by function.
    let code = client.javascript(&format!("{}.js", case.name.replace(' ', "_")), FUNCTION).await?;
    let Case { name, state_bytes, result_bytes, calls } = case;
    let input = json!({ "name": name, "state_bytes": state_bytes, "result_bytes": result_bytes, "calls": calls });
    let input = to_value(&input)?;
    // Each way is tried twice to learn, and to send the function to where it runs.
    for mode in [Mode::Adaptive; 6].into_iter().chain(MODES) {
        once(client, &code, &input, mode).await?;
    }
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (took, mode) in took.iter_mut().zip(MODES) {
            took.push(once(client, &code, &input, mode).await?);
        }
    }
    let [chain, interactive, adaptive] = took.map(|took| Spread::of(took).median);
    Ok((adaptive / chain.min(interactive) - 1.0) * 100.0)
}

async fn once(client: &Client, code: &catena::Code, input: &catena::Value, mode: Mode) -> Result<f64, Failure> {
    let options = RunOptions { mode, ..RunOptions::default() };
    let began = Instant::now();
    let _: Json = client.run_with(code, input, &options)?.value().await?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
