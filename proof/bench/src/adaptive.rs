//! Adaptive chains against the better of always moving and never moving: from the first run on, exploring included, and while
//! the services move to a place behind another link.

use std::{net::TcpListener, time::Instant};

use catena::{Client, Code, Mode, RunOptions, Sandbox, Service, Value, to_value};
use futures_util::future::try_join_all;
use serde_json::{Value as Json, json};

use crate::{Failure, mesh, server::Server, stats::Spread, summary::Summary};

/// What makes moving pay, and what makes staying pay.
#[derive(Clone, Copy)]
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

/// The state is made at the origin, of numbers that no compression would find alike.
const FUNCTION: &str = r#"import { call } from "catena";
export default async function work({ name, state_bytes, result_bytes, calls }) {
  const state = new Uint32Array(Math.ceil(state_bytes / 4));
  for (let i = 0; i < state.length; i++) state[i] = Math.random() * 2 ** 32;
  let sum = 0;
  for (let i = 0; i < calls; i++) sum += (await call(`data.${i % 2}/get`, result_bytes)).length;
  return [sum, state.byteLength, name];
}
"#;
/// Where the services are, first and then: far away by a wide link, then near by a thin one.
const SITES: [&str; 2] = ["mtv", "thin"];
/// After this many adaptive runs, both other modes run once, to compare with.
const COMPARED_EVERY: usize = 5;

/// What the figure's nodes serve.
pub(crate) fn service(name: &str) -> Service {
    Service::new(name).function("get", async |bytes: usize| Ok("x".repeat(bytes)))
}

/// `runs` of each case in each place, and all of it `repetitions` times, side by side: they wait for their links nearly all of the time.
pub(crate) async fn measure(
    sandbox: &Sandbox,
    repetitions: usize,
    runs: usize,
    summary: &mut Summary,
) -> Result<(), Failure> {
    let worst = (0..repetitions).map(|_| async {
        let cases = CASES.iter().map(|case| over_the_better_pct(sandbox, case, runs));
        let over = try_join_all(cases).await?;
        Ok::<_, Failure>(over.into_iter().fold(f64::MIN, f64::max))
    });
    summary.put("adaptive_worst_pct", Spread::of(try_join_all(worst).await?));
    Ok(())
}

async fn over_the_better_pct(sandbox: &Sandbox, case: &Case, runs: usize) -> Result<f64, Failure> {
    let ports = [free_port()?, free_port()?];
    let mut servers = serve(&ports, SITES[0]).await?;
    let builder = Client::builder("adapts").site("bei").topology(mesh::topology()).sandbox(sandbox.clone());
    let client = mesh::joined(builder, &[ports[0].as_str(), &ports[1]], None).connect().await?;
    let work = Work::new(&client, case).await?;
    let (mut took_ms, mut best_ms) = (0.0, 0.0);
    for site in SITES {
        if site != SITES[0] {
            for server in servers {
                server.end().await?;
            }
            servers = serve(&ports, site).await?;
        }
        mesh::known(&client, &["data.0", "data.1"]).await?;
        let [adaptive, better] = work.runs(runs).await?;
        eprintln!("  {}, {site}: adaptive {adaptive:.0} ms, the better of the two {better:.0} ms", case.name);
        took_ms += adaptive;
        best_ms += better;
    }
    Ok((took_ms / best_ms - 1.0) * 100.0)
}

async fn serve(ports: &[String; 2], site: &str) -> Result<Vec<Server>, Failure> {
    let first = Server::start(&["data", "data.0", site, &ports[0]]).await?;
    let second = Server::start(&["data", "data.1", site, &ports[1], &ports[0]]).await?;
    Ok(vec![first, second])
}

/// An address at which a server can listen, and another after that one has ended.
fn free_port() -> Result<String, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

struct Work<'a> {
    client: &'a Client,
    /// Two functions that do the same, since what is learnt is learnt by function: adaptive chains learn from their own runs alone.
    adaptive: Code,
    compared: Code,
    input: Value,
}

impl<'a> Work<'a> {
    async fn new(client: &'a Client, case: &Case) -> Result<Self, Failure> {
        let Case { name, state_bytes, result_bytes, calls } = case;
        let input = json!({ "name": name, "state_bytes": state_bytes, "result_bytes": result_bytes, "calls": calls });
        let adaptive = client.javascript("adaptive.js", FUNCTION).await?;
        let compared = client.javascript("compared.js", FUNCTION).await?;
        Ok(Self { client, adaptive, compared, input: to_value(&input)? })
    }

    /// Milliseconds that all adaptive runs took, and that as many runs of the better of the other two modes would have taken.
    async fn runs(&self, runs: usize) -> Result<[f64; 2], Failure> {
        // Names are looked up and links warm before anything counts.
        self.once(&self.compared, Mode::Interactive).await?;
        self.once(&self.compared, Mode::Chain).await?;
        let (mut adaptive_ms, mut compared) = (0.0, [Vec::new(), Vec::new()]);
        for run in 0..runs {
            adaptive_ms += self.once(&self.adaptive, Mode::Adaptive).await?;
            if run.is_multiple_of(COMPARED_EVERY) {
                for (took, mode) in compared.iter_mut().zip([Mode::Chain, Mode::Interactive]) {
                    took.push(self.once(&self.compared, mode).await?);
                }
            }
        }
        // Means, to compare with a sum: a median would leave out disturbances by the machine, which the adaptive runs had their share of.
        let [chain, interactive] = compared.map(|took| took.iter().sum::<f64>() / took.len() as f64);
        Ok([adaptive_ms, chain.min(interactive) * runs as f64])
    }

    async fn once(&self, code: &Code, mode: Mode) -> Result<f64, Failure> {
        let options = RunOptions { mode, ..RunOptions::default() };
        let began = Instant::now();
        let _: Json = self.client.run_with(code, &self.input, &options)?.value().await?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }
}
