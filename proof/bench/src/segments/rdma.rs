//! READs by RDMA beside READs by the link, where libfabric is installed: by `tcp;ofi_rxm`, which needs no hardware. So this shows what the way costs, and not
//! what an adapter brings.

use std::{sync::Arc, time::Instant};

use catena::{Client, Imported, Place, RemoteMemory, Way};
use catena_fabric::{Fabric, Terms};

use super::{
    owner::{BULK, OWNER},
    peers::Peers,
};
use crate::{
    Failure, mesh,
    stats::{Spread, ratios},
};

const PROVIDER: &str = "tcp;ofi_rxm";
/// Bytes of a READ.
const READ_BYTES: u64 = 64 << 10;
/// READs in a block; a block counts with its median.
const IN_A_BLOCK: usize = 100;

/// `None`: it is not installed.
pub(super) fn fabric() -> Option<Arc<dyn RemoteMemory>> {
    let opened = Fabric::open(PROVIDER, Some("127.0.0.1"), Terms::default());
    let opened: Arc<dyn RemoteMemory> = Arc::new(opened.ok()?);
    Some(opened)
}

/// `None`: there is nothing to measure.
pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Option<Spread>, Failure> {
    let Some(fabric) = fabric() else { return Ok(None) };
    let client = Client::builder("by rdma").sandbox(mesh::sandbox()?).join(Place::new(peers.node()));
    let client = client.without_shared_memory().remote_memory(fabric).connect().await?;
    let bulk = client.import(&format!("{OWNER}/{BULK}")).await?;
    let (mut by_rdma, mut by_link) = (Vec::new(), Vec::new());
    for block in 0..=blocks {
        let (rdma, link) = (median_ns(&bulk).await?, median_ns(&peers.bulk).await?);
        // The first block warms everything up.
        if block > 0 {
            by_rdma.push(rdma);
            by_link.push(link);
        }
    }
    if bulk.way() != Way::Rdma {
        return Err(format!("bytes did not go by RDMA: {}", bulk.explain().await.1).into());
    }
    Ok(Some(ratios(&by_rdma, &by_link)))
}

async fn median_ns(from: &Imported) -> Result<f64, Failure> {
    let mut each = Vec::with_capacity(IN_A_BLOCK);
    for _ in 0..IN_A_BLOCK {
        let began = Instant::now();
        drop(from.read(0, READ_BYTES).await?);
        each.push(began.elapsed().as_nanos() as f64);
    }
    Ok(Spread::of(each).median)
}
