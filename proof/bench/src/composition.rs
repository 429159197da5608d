//! Composing chains against running them one inside the other (rpc-chains section 5.3.2, Figure 12): a copy to a replicated
//! file service, client in Cambridge, source and primary in Mountain View, backup in Redmond.

use std::{sync::Arc, time::Instant};

use catena::{RunOptions, Sandbox, Topology};
use catena_apps::{
    copy::{self, ChunkCode, Copy},
    replicated::{REPLICATED, SOURCE, Stage},
};
use catena_files::Directory;

use crate::{Failure, stats::Spread, summary::Summary};

/// One of the sizes in the paper's figure.
const FILE_BYTES: usize = 128 << 10;

pub(crate) async fn measure(sandbox: &Sandbox, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let files = |name: &str| -> Result<Arc<Directory>, Failure> {
        let path = folder.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(Arc::new(Directory::open(path)?))
    };
    let services: [Arc<dyn catena_files::FileService>; 3] = [files("source")?, files("primary")?, files("backup")?];
    let stage = Stage::open(sandbox, Some(Arc::new(Topology::paper())), services).await?;
    stage.put("file", &vec![7; FILE_BYTES]).await?;
    let code = ChunkCode::load(&stage.client).await?;
    let (mut saved, mut joined, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let on = once(&stage, &code, round, true).await?;
        let off = once(&stage, &code, round, false).await?;
        // The first round sends the functions to where they run.
        if round > 0 {
            saved.push((1.0 - on / off) * 100.0);
            joined.push(on);
            apart.push(off);
        }
    }
    summary.at_least(
        "composition_saved_pct",
        "copy to a replicated service: composition saves, %",
        Spread::of(saved),
        12.0,
    );
    summary.plain("composed_ms", "the same, composed, ms", Spread::of(joined));
    summary.plain("not_composed_ms", "the same, composition off, ms", Spread::of(apart));
    Ok(())
}

async fn once(stage: &Stage, code: &ChunkCode, round: usize, compose: bool) -> Result<f64, Failure> {
    let copy = Copy::new(SOURCE, "file", REPLICATED, &format!("copy-{round}-{compose}"));
    let options = RunOptions { compose, ..RunOptions::default() };
    let began = Instant::now();
    copy::by_chunks(&stage.client, code, &copy, &options, |_| {}).await?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
