//! Messages: short ones beside raw TCP, long ones beside gRPC calls of as many bytes.

use super::{
    each_ns,
    peers::{Job, Peers},
};
use crate::{Failure, stats::ratios, summary::Summary};

const IN_A_BLOCK: usize = 100;
/// Of long ones.
const LONG_IN_A_BLOCK: usize = 10;

/// Nanoseconds, by block.
#[derive(Default)]
pub(super) struct Messages {
    raw: Vec<f64>,
    short: Vec<f64>,
    long: Vec<f64>,
    long_near: Vec<f64>,
    tonic: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Messages, Failure> {
    let mut all = Messages::default();
    for block in 0..=blocks {
        let raw = each_ns(peers, Job::Raw, IN_A_BLOCK).await?;
        let short = each_ns(peers, Job::Short, IN_A_BLOCK).await?;
        let long = each_ns(peers, Job::Long, LONG_IN_A_BLOCK).await?;
        let tonic = each_ns(peers, Job::TonicLong, LONG_IN_A_BLOCK).await?;
        let long_near = each_ns(peers, Job::LongNear, LONG_IN_A_BLOCK).await?;
        if block > 0 {
            all.raw.push(raw);
            all.short.push(short);
            all.long.push(long);
            all.tonic.push(tonic);
            all.long_near.push(long_near);
        }
    }
    Ok(all)
}

impl Messages {
    pub(super) fn report(self, summary: &mut Summary) {
        let Self { raw, short, long, long_near, tonic } = self;
        summary.put("short_ratio", ratios(&short, &raw));
        summary.put("long_tonic", ratios(&long, &tonic));
        summary.put("long_tonic_near", ratios(&long_near, &tonic));
    }
}
