//! Messages: short ones beside raw TCP, long ones beside gRPC calls of as many bytes.

use super::{
    each_ns,
    peers::{Job, Peers},
};
use crate::{
    Failure,
    stats::{Spread, in_rounds, ratios},
};

const IN_A_BLOCK: usize = 100;
/// Of long ones.
const LONG_IN_A_BLOCK: usize = 10;

/// One way, beside half of what raw TCP takes there and back.
pub(super) async fn short_ratio(peers: &Peers, blocks: usize) -> Result<Spread, Failure> {
    let block =
        || async { Ok([each_ns(peers, Job::Raw, IN_A_BLOCK).await?, each_ns(peers, Job::Short, IN_A_BLOCK).await?]) };
    let [raw, short] = in_rounds(blocks, block).await?;
    Ok(ratios(&short, &raw))
}

/// By the link, and in shared memory.
pub(super) async fn long_ratios(peers: &Peers, blocks: usize) -> Result<[Spread; 2], Failure> {
    let block = || async {
        Ok([
            each_ns(peers, Job::Long, LONG_IN_A_BLOCK).await?,
            each_ns(peers, Job::TonicLong, LONG_IN_A_BLOCK).await?,
            each_ns(peers, Job::LongNear, LONG_IN_A_BLOCK).await?,
        ])
    };
    let [long, tonic, near] = in_rounds(blocks, block).await?;
    Ok([ratios(&long, &tonic), ratios(&near, &tonic)])
}
