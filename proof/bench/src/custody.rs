//! What custody costs: the same chain between nodes of the same processes, with it and without.

use std::sync::Arc;

use crate::{
    Failure,
    cpu::{IN_FLIGHT, per_cpu_second},
    lone::Lone,
    peers::{Job, Peers},
    stats::{Spread, append, in_rounds, pairs},
    summary::Summary,
};

/// Hops of each chain, each of which is accepted.
const HOPS: f64 = 4.0;
/// Measurements of either kind in one value: it is a small difference of large figures.
const IN_TURNS: u32 = 4;

/// Microseconds of processor time, by round: a chain with custody, one without, an acceptance.
#[derive(Default)]
pub(crate) struct Series([Vec<f64>; 3]);

impl Series {
    pub(crate) async fn measure(&mut self, peers: &Arc<Peers>, rounds: usize) -> Result<(), Failure> {
        let lone = Lone::start().await?;
        // The first round fills the step records, as in a node that has been at work.
        let round = || async {
            let (mut full, mut bare) = (0.0, 0.0);
            for _ in 0..IN_TURNS {
                full += 1e6 / per_cpu_second(peers, Job::ChainWasm, IN_FLIGHT).await? / f64::from(IN_TURNS);
                bare += 1e6 / per_cpu_second(peers, Job::ChainBare, IN_FLIGHT).await? / f64::from(IN_TURNS);
            }
            let message = lone.message_us(full / HOPS).await?;
            // Even a node without custody sends acceptances, whose cost is measured separately and subtracted.
            Ok([full, bare - HOPS * message, message])
        };
        append(&mut self.0, in_rounds(rounds, round).await?);
        Ok(())
    }

    pub(crate) fn report(self, summary: &mut Summary) {
        let [with, without, accepted] = self.0;
        summary.put("custody_cost_pct", pairs(&with, &without, |with, without| (with / without - 1.0) * 100.0));
        summary.put("accepted_us", Spread::of(accepted));
    }
}
