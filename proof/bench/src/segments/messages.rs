//! Messages: short ones beside raw TCP, long ones beside gRPC calls of as many bytes.

use super::{
    each_ns,
    peers::{Job, Peers},
};
use crate::{
    Failure,
    stats::{in_rounds, ratios},
    summary::Summary,
};

const IN_A_BLOCK: usize = 100;
/// Of long ones.
const LONG_IN_A_BLOCK: usize = 10;

/// Nanoseconds, by block.
pub(super) struct Messages {
    raw: Vec<f64>,
    short: Vec<f64>,
    long: Vec<f64>,
    long_near: Vec<f64>,
    tonic: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Messages, Failure> {
    let block = || async {
        Ok([
            each_ns(peers, Job::Raw, IN_A_BLOCK).await?,
            each_ns(peers, Job::Short, IN_A_BLOCK).await?,
            each_ns(peers, Job::Long, LONG_IN_A_BLOCK).await?,
            each_ns(peers, Job::TonicLong, LONG_IN_A_BLOCK).await?,
            each_ns(peers, Job::LongNear, LONG_IN_A_BLOCK).await?,
        ])
    };
    let [raw, short, long, tonic, long_near] = in_rounds(blocks, block).await?;
    Ok(Messages { raw, short, long, long_near, tonic })
}

impl Messages {
    pub(super) fn report(self, summary: &mut Summary) {
        let Self { raw, short, long, long_near, tonic } = self;
        summary.put("short_ratio", ratios(&short, &raw));
        summary.put("long_tonic", ratios(&long, &tonic));
        summary.put("long_tonic_near", ratios(&long_near, &tonic));
    }
}
