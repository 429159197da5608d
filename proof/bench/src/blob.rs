//! A value by reference: a chain of four hops over the paper's links, whose answer holds 10 MB that are in Redmond, for a client in Beijing.

use std::time::Instant;

use catena::{Blob, Client, Code, RunOptions, Sandbox, from_value, to_value};
use futures_util::StreamExt;

use crate::{Failure, mesh, server::Server, stats::Spread, summary::Summary};

const BLOB_BYTES: u64 = 10_000_000;

/// The reference comes along; the bytes do not.
const FUNCTION: &str = r#"import { call } from "catena";
export default async function (count) {
  const file = await call("files.red/lookup", { path: "blob" });
  const blob = await call("files.red/offer", { handle: file.handle, offset: 0, count });
  for (const site of ["mtv", "cam", "bei"]) await call(`files.${site}/root`, {});
  return blob;
}"#;

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let mut servers: Vec<Server> = Vec::new();
    for site in ["mtv", "red", "cam", "bei"] {
        let path = folder.path().join(site);
        std::fs::create_dir(&path)?;
        let mut kind = vec!["store", site, path.to_str().ok_or("the temporary folder is not UTF-8")?];
        kind.extend(servers.first().map(|first| first.address.as_str()));
        servers.push(Server::start(&kind).await?);
    }
    std::fs::write(folder.path().join("red/blob"), vec![7; BLOB_BYTES as usize])?;
    let client = Client::builder("client").site("bei").topology(mesh::topology()).sandbox(sandbox.clone());
    let client = mesh::joined(client, [&servers[0].address.as_str()], Some("mtv")).connect().await?;
    mesh::known(&client, &["files.red", "files.mtv", "files.cam", "files.bei"]).await?;
    let code = client.javascript("blob.js", FUNCTION).await?;
    let (mut bound, mut bytes) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (ms, crossed) = once(&client, &code).await?;
        // The first round sends the function to where it runs.
        if round > 0 {
            bound.push(ms / bound_ms());
            bytes.push(crossed / BLOB_BYTES as f64);
        }
    }
    summary.put("blob_chain_bound", Spread::of(bound));
    summary.put("blob_bytes_needed", Spread::of(bytes));
    Ok(())
}

/// The delays along the chain, one round trip to the owner, and the bytes over the link to it.
fn bound_ms() -> f64 {
    let topology = mesh::topology();
    let delay = |from: &str, to: &str| topology.between(from, to).map_or(f64::NAN, |shape| shape.delay_us as f64);
    let way = ["bei", "red", "mtv", "cam", "bei", "bei", "red", "bei"];
    let delays_us: f64 = way.windows(2).map(|pair| delay(pair[0], pair[1])).sum();
    let bytes_per_s = topology.between("red", "bei").map_or(f64::NAN, |shape| shape.bytes_per_s as f64);
    delays_us / 1e3 + BLOB_BYTES as f64 / bytes_per_s * 1e3
}

/// Milliseconds; and bytes over the client's links, with what each hop carried.
async fn once(client: &Client, code: &Code) -> Result<(f64, f64), Failure> {
    let (before, began) = (client.traffic(), Instant::now());
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let mut replies = client.run_with(code, &to_value(&BLOB_BYTES)?, &options)?;
    let blob = from_value::<Blob>(&replies.last().await?)?.on(client);
    let mut pieces = std::pin::pin!(blob.stream());
    let mut read = 0;
    while let Some(piece) = pieces.next().await {
        read += piece?.len() as u64;
    }
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if read != BLOB_BYTES {
        return Err(format!("{read} bytes of {BLOB_BYTES} came").into());
    }
    let after = client.traffic();
    let own = after.sent_bytes + after.received_bytes - before.sent_bytes - before.received_bytes;
    let moves = replies.trace().iter().filter(|step| !step.in_place);
    let carried: u64 = moves.map(|step| step.params_bytes + step.continuation_bytes).sum();
    // Given up by its time: the owner holds some of them.
    Ok((ms, (own + carried) as f64))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bound_is_that_of_the_papers_links() {
        let bound = super::bound_ms();
        assert!((1_600.0..1_800.0).contains(&bound), "{bound}");
    }
}
