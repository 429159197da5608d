//! Composing chains against running them one inside the other (rpc-chains section 5.3.2, Figure 12): a copy to a replicated
//! file service, client in Cambridge, source and primary in Mountain View, backup in Redmond.

use std::time::Instant;

use catena::{Client, RunOptions, Sandbox};
use catena_apps::{
    copy::{self, ChunkCode, Copy},
    replicated::{BACKUP, PRIMARY, REPLICATED, SOURCE},
};

use crate::{
    Failure, mesh,
    server::Server,
    stats::{Spread, pairs},
    summary::Summary,
};

/// One of the sizes in the paper's figure.
const FILE_BYTES: usize = 128 << 10;

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let mut servers: Vec<Server> = Vec::new();
    for (role, site) in [(SOURCE, "mtv"), (PRIMARY, "mtv"), (BACKUP, "red")] {
        let path = folder.path().join(role);
        std::fs::create_dir(&path)?;
        let mut kind = vec!["files", role, site, path.to_str().ok_or("the temporary folder is not UTF-8")?];
        kind.extend(servers.first().map(|first| first.address.as_str()));
        servers.push(Server::start(&kind).await?);
    }
    std::fs::write(folder.path().join(SOURCE).join("file"), vec![7; FILE_BYTES])?;
    let client = Client::builder("client").site("cam").topology(mesh::topology()).sandbox(sandbox.clone());
    let client = mesh::joined(client, [&servers[0].address.as_str()], Some("mtv")).connect().await?;
    mesh::known(&client, &[SOURCE, REPLICATED, PRIMARY, BACKUP]).await?;
    let code = ChunkCode::load(&client).await?;
    let (mut joined, mut apart) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let on = once(&client, &code, round, true).await?;
        let off = once(&client, &code, round, false).await?;
        // The first round sends the functions to where they run.
        if round > 0 {
            joined.push(on);
            apart.push(off);
        }
    }
    summary.put("composition_saved_pct", pairs(&joined, &apart, saved_pct));
    // Computed, and the same each time.
    summary.put("composition_allowed_pct", Spread::of(vec![allowed_pct(); rounds]));
    summary.put("composed_ms", Spread::of(joined));
    summary.put("not_composed_ms", Spread::of(apart));
    Ok(())
}

fn saved_pct(composed: f64, apart: f64) -> f64 {
    (1.0 - composed / apart) * 100.0
}

/// Begin and each chunk go by the source, the end does not; composed, the backup answers the client, else the primary does.
fn allowed_pct() -> f64 {
    let topology = mesh::topology();
    let delay = |from: &str, to: &str| topology.between(from, to).map_or(f64::NAN, |shape| shape.delay_us as f64);
    let along = |sites: &[&str]| -> f64 { sites.windows(2).map(|pair| delay(pair[0], pair[1])).sum() };
    let composed = 2.0 * along(&["cam", "mtv", "mtv", "red", "cam"]) + along(&["cam", "mtv", "red", "cam"]);
    let apart = 2.0 * along(&["cam", "mtv", "mtv", "red", "mtv", "cam"]) + along(&["cam", "mtv", "red", "mtv", "cam"]);
    saved_pct(composed, apart)
}

async fn once(client: &Client, code: &ChunkCode, round: usize, compose: bool) -> Result<f64, Failure> {
    let copy = Copy::new(SOURCE, "file", REPLICATED, &format!("copy-{round}-{compose}"));
    let options = RunOptions { compose, ..RunOptions::default() };
    let began = Instant::now();
    copy::by_chunks(client, code, &copy, &options, |_| {}).await?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_delays_allow_less_than_the_papers_twelve_percent() {
        let allowed = super::allowed_pct();
        assert!((11.0..12.0).contains(&allowed), "{allowed}");
    }
}
