//! A split into eight against eight calls one after the other, at services that take a while.

use std::time::{Duration, Instant};

use catena::{Client, Place, Sandbox, Service};

use crate::{
    Failure,
    server::Server,
    stats::{Spread, in_rounds},
    summary::Summary,
};

/// What each service takes.
const SERVICE: Duration = Duration::from_millis(5);
const BRANCHES: usize = 8;

const IN_A_ROW: &str = r#"import { call } from "catena";
export default async (targets) => { const got = []; for (const t of targets) got.push(await call(t, null)); return got.length; };"#;
const SPLIT: &str = r#"import { call, split } from "catena";
export default async (targets) => (await split(targets.map((t) => () => call(t, null)))).length;"#;

/// A service that takes a while.
pub(crate) fn service(name: &str) -> Service {
    Service::new(name).function("take", async |(): ()| {
        tokio::time::sleep(SERVICE).await;
        Ok(())
    })
}

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let names: Vec<_> = (0..BRANCHES).map(|number| format!("slow.{number}")).collect();
    let mut servers: Vec<Server> = Vec::new();
    for name in &names {
        let mut kind = vec!["slow", name];
        kind.extend(servers.first().map(|first| first.address.as_str()));
        servers.push(Server::start(&kind).await?);
    }
    let first = Place::new(servers[0].address.as_str());
    let client =
        Client::builder("splits").sandbox(sandbox.clone()).without_shared_memory().join(first).connect().await?;
    let (row, split) = (client.javascript("row.js", IN_A_ROW).await?, client.javascript("split.js", SPLIT).await?);
    let targets: Vec<_> = names.iter().map(|name| format!("{name}/take")).collect();
    let round = || async {
        let sequential = took_ms(&client, &row, &targets).await?;
        let side_by_side = took_ms(&client, &split, &targets).await?;
        Ok([sequential / side_by_side])
    };
    let [speedup] = in_rounds(rounds, round).await?;
    summary.put("split8_speedup", Spread::of(speedup));
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
