//! How much state a chain may carry before calls are faster (rpc-chains section 5.2.2, Figure 9): client in Redmond, two services that do nothing in Mountain View. As a value the
//! state goes with the chain; as a blob it stays where it is.

use std::time::Instant;

use catena::{Client, Code, Sandbox};
use serde_bytes::ByteBuf;

use crate::{
    Failure,
    mesh::{self, NAMES},
    server::Server,
    stats::{Spread, in_rounds, ratios},
    summary::Summary,
};

/// Bytes of state: the paper's chain lost above 150 KB.
const SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

const FUNCTION: &str = r#"import { call } from "catena";
export default async function (state) {
  for (const name of ["one", "two"]) await call(`${name}/noop`, null);
  return state.size ?? state.length;
}"#;

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let mut servers: Vec<Server> = Vec::new();
    for name in &NAMES[..2] {
        let mut kind = vec!["placed", name, "mtv"];
        kind.extend(servers.first().map(|first| first.address.as_str()));
        servers.push(Server::start(&kind).await?);
    }
    let client = Client::builder("client").site("red").topology(mesh::topology()).sandbox(sandbox.clone());
    let client = mesh::joined(client, [&servers[0].address.as_str()], Some("mtv")).connect().await?;
    mesh::known(&client, &NAMES[..2]).await?;
    let code = client.javascript("crossing.js", FUNCTION).await?;
    let mut table = "state bytes,as a value ms,as a blob ms,two calls ms\n".to_owned();
    for bytes in SIZES {
        let once = || async {
            Ok([
                by_value_ms(&client, &code, bytes).await?,
                by_blob_ms(&client, &code, bytes).await?,
                calls_ms(&client).await?,
            ])
        };
        let series @ [value, blob, calls] = &in_rounds(rounds, once).await?;
        if bytes == SIZES[SIZES.len() - 1] {
            summary.put("state_blob_calls", ratios(blob, calls));
            summary.put("state_value_calls", ratios(value, calls));
        }
        let shown = series.each_ref().map(|values| Spread::of(values.clone()).shown(1));
        table += &format!("{bytes},{}\n", shown.join(","));
    }
    summary.put_table("crossing", table);
    Ok(())
}

async fn by_value_ms(client: &Client, code: &Code, bytes: usize) -> Result<f64, Failure> {
    let state = ByteBuf::from(vec![7; bytes]);
    let began = Instant::now();
    let size: usize = client.run(code, &state).await?.value().await?;
    checked(size, bytes, began)
}

async fn by_blob_ms(client: &Client, code: &Code, bytes: usize) -> Result<f64, Failure> {
    let state = client.blob(&vec![7; bytes], "")?;
    let began = Instant::now();
    let size: usize = client.run(code, &state).await?.value().await?;
    let took = checked(size, bytes, began);
    let _ = state.release();
    took
}

/// The same work by calls: the state stays at the client.
async fn calls_ms(client: &Client) -> Result<f64, Failure> {
    let began = Instant::now();
    for name in &NAMES[..2] {
        client.call::<_, ()>(name, "noop", &()).await?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

fn checked(size: usize, bytes: usize, began: Instant) -> Result<f64, Failure> {
    match size == bytes {
        true => Ok(began.elapsed().as_secs_f64() * 1e3),
        false => Err(format!("{size} bytes of state, where {bytes} began").into()),
    }
}
