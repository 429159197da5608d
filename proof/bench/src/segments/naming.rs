//! Names: export, import of what is imported already and of what is not, import by asking, and revocation.

use std::time::Instant;

use catena::{Export, Lookup, Node, Rights};

use super::{
    each_ns,
    owner::{NAMED, OWNER, SMALL_BYTES, WORDS},
    peers::{Job, Peers},
};
use crate::{
    Failure, mesh,
    stats::{Spread, in_rounds, ratios},
    summary::Summary,
};

const IN_A_BLOCK: usize = 100;
/// Of imports that are there already: looking at the clock takes as long as one.
const TOGETHER: usize = 2_000;

/// Nanoseconds, by block.
pub(super) struct Naming {
    pub(super) export: Vec<f64>,
    pub(super) revoke: Vec<f64>,
    pub(super) cached: Vec<f64>,
    pub(super) uncached: Vec<f64>,
    pub(super) asked: Vec<f64>,
    /// READ of 64 bytes, in turns with the imports.
    read: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Naming, Failure> {
    // Its segments are known to the same registry as if they were used: nobody imports them.
    let node = Node::builder("exporter").sandbox(mesh::sandbox()?).listen("127.0.0.1:0").start().await?;
    let block = || async {
        let read = each_ns(peers, Job::Read, IN_A_BLOCK).await?;
        let uncached = imports_ns(peers, Lookup::default()).await?;
        let asked = imports_ns(peers, Lookup::Ask).await?;
        let cached = cached_ns(peers).await?;
        let (export, revoke) = exports_ns(&node).await?;
        Ok([read, uncached, asked, cached, export, revoke])
    };
    let [read, uncached, asked, cached, export, revoke] = in_rounds(blocks, block).await?;
    Ok(Naming { export, revoke, cached, uncached, asked, read })
}

/// Each is of a segment that is not imported: what was imported is let go at once.
async fn imports_ns(peers: &Peers, how: Lookup) -> Result<f64, Failure> {
    let mut each = Vec::with_capacity(IN_A_BLOCK);
    for number in 0..IN_A_BLOCK {
        let path = format!("{OWNER}/named {}", number % NAMED);
        let began = Instant::now();
        let imported = peers.far.import_with(&path, how).await?;
        each.push(began.elapsed().as_nanos() as f64);
        drop(imported);
    }
    Ok(Spread::of(each).median)
}

async fn cached_ns(peers: &Peers) -> Result<f64, Failure> {
    let path = format!("{OWNER}/{WORDS}");
    let began = Instant::now();
    for _ in 0..TOGETHER {
        drop(peers.far.import(&path).await?);
    }
    Ok(began.elapsed().as_nanos() as f64 / TOGETHER as f64)
}

async fn exports_ns(node: &Node) -> Result<(f64, f64), Failure> {
    let how = Export { anyone: Rights::ALL, ..Export::default() };
    let (mut exports, mut revokes) = (Vec::new(), Vec::new());
    for _ in 0..IN_A_BLOCK {
        let began = Instant::now();
        let segment = node.export("passing", SMALL_BYTES as u64, how)?;
        let exported = began.elapsed();
        segment.revoke().await?;
        exports.push(exported.as_nanos() as f64);
        revokes.push((began.elapsed() - exported).as_nanos() as f64);
    }
    Ok((Spread::of(exports).median, Spread::of(revokes).median))
}

impl Naming {
    pub(super) fn report(self, summary: &mut Summary) {
        summary.put("import_read_ratio", ratios(&self.uncached, &self.read));
        summary.put("import_cached_ns", Spread::of(self.cached));
    }
}
