//! Chains beside calls: one at a time, by processor time, and what custody costs of that. All of it is measured a few times over a run, by processes that have not been
//! used: one has its memory laid out well or badly for as long as it lives, and the machine has moods that last for minutes.

use std::sync::Arc;

use catena::Sandbox;

use crate::{Failure, cores::Cores, cpu, custody, latency, peers::Peers, summary::Summary};

/// How often in a run.
pub(crate) const VISITS: usize = 3;

/// How much is measured at each visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Blocks of chains and calls one at a time.
    pub(crate) blocks: usize,
    /// Rounds of processor time.
    pub(crate) cpu_rounds: usize,
}

#[derive(Default)]
pub(crate) struct Chains {
    latency: latency::Series,
    cpu: cpu::Series,
    custody: custody::Series,
}

impl Chains {
    pub(crate) async fn visit(&mut self, sandbox: &Sandbox, scale: Scale) -> Result<(), Failure> {
        let peers = Arc::new(Peers::start(sandbox).await?);
        let [near, far] = peers.processes();
        let _held = Cores::hold(near, far)?;
        eprintln!("latency: chains of 4 hops, a ring of raw TCP, and gRPC, in turns");
        self.latency.measure(&peers, scale.blocks).await?;
        eprintln!("processor time: 64 in flight");
        self.cpu.measure(&peers, scale.cpu_rounds).await?;
        eprintln!("custody: what it costs that no step is done twice");
        self.custody.measure(&peers, scale.cpu_rounds).await
    }

    pub(crate) fn report(self, summary: &mut Summary) {
        self.latency.report(summary);
        self.cpu.report(summary);
        self.custody.report(summary);
    }
}
