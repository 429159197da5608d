//! One server, one clerk that works in one way, and what operations cost.

use std::{collections::BTreeMap, iter::Sum, time::Instant};

use catena_dfs::{
    ClerkConfig, Way,
    workload::{Activity, BYTES_MAX, DIRECTORY_BYTES, LINK_BYTES, Operation},
};
use tempfile::TempDir;

use super::{
    Failure,
    player::{Player, lay_out},
    process::Served,
};

/// What one operation costs.
pub(crate) struct Figure {
    pub(crate) operation: String,
    /// Whether it is one of the operations that the goals compare.
    pub(crate) compared: bool,
    /// The median, at the clerk.
    pub(crate) latency_us: f64,
    /// Mean processor time of the server.
    pub(crate) cpu_us: f64,
}

/// What operations moved, as Table 1b counts it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) calls: u64,
    pub(crate) data_bytes: u64,
    /// Of the bytes that went with control, those that are not data: file handles, identifiers, marshaling; without the network's own headers.
    pub(crate) control_bytes: u64,
}

impl Sum for Moved {
    fn sum<I: Iterator<Item = Self>>(rows: I) -> Self {
        rows.fold(Self::default(), |sum, one| Self {
            calls: sum.calls + one.calls,
            data_bytes: sum.data_bytes + one.data_bytes,
            control_bytes: sum.control_bytes + one.control_bytes,
        })
    }
}

impl Moved {
    /// The average for one call.
    pub(crate) fn data_bytes_per_call(&self) -> f64 {
        self.data_bytes as f64 / self.calls.max(1) as f64
    }

    /// Control bytes as a percentage of all bytes.
    pub(crate) fn control_pct(&self) -> f64 {
        self.control_bytes as f64 * 100.0 / (self.control_bytes + self.data_bytes).max(1) as f64
    }
}

/// What the mix costs.
pub(crate) struct Mixed {
    pub(crate) cpu_us: f64,
    pub(crate) wire_bytes: u64,
    /// By activity: the rows of Table 1b.
    pub(crate) moved: BTreeMap<Activity, Moved>,
    pub(crate) asked: u64,
}

impl Mixed {
    /// The sum of all rows.
    pub(crate) fn total(&self) -> Moved {
        self.moved.values().copied().sum()
    }

    /// Bytes on the wire that are not requested data, as a percentage of all bytes on the wire.
    pub(crate) fn overhead_pct(&self) -> f64 {
        self.wire_bytes.saturating_sub(self.total().data_bytes) as f64 * 100.0 / self.wire_bytes.max(1) as f64
    }
}

pub(crate) struct Bench {
    served: Served,
    player: Player,
    _folder: TempDir,
}

impl Bench {
    pub(crate) async fn start(way: Way, shared_memory: bool) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        lay_out(folder.path())?;
        let served = Served::start(folder.path(), shared_memory, None)?;
        let player = Player::open(ClerkConfig { way, shared_memory, ..ClerkConfig::new(&served.address) }).await?;
        Ok(Self { served, player, _folder: folder })
    }

    /// Each operation of Figures 2 and 3, cached at the server, so many times. Beside them, without being part of any ratio: one without data, one on the whole
    /// file system, and a write, which transfers control in every way.
    pub(crate) async fn each(&mut self, times: usize) -> Result<Vec<Figure>, Failure> {
        let one = |activity, bytes| Operation { activity, bytes, pick: 0 };
        let [few, many] = DIRECTORY_BYTES;
        let compared = [
            ("getattr", one(Activity::Getattr, 0)),
            ("lookup", one(Activity::Lookup, 0)),
            ("readlink", one(Activity::Readlink, LINK_BYTES[0])),
            ("read 1K", one(Activity::Read, 1_024)),
            ("read 4K", one(Activity::Read, 4_096)),
            ("read 8K", one(Activity::Read, BYTES_MAX)),
            ("readdir 256", one(Activity::Readdir, few)),
            ("readdir 2560", one(Activity::Readdir, many)),
        ];
        let beside = [
            ("null", one(Activity::Null, 0)),
            ("statfs", one(Activity::Statfs, 0)),
            ("write 8K", one(Activity::Write, BYTES_MAX)),
        ];
        let mut figures = Vec::new();
        for (number, (name, operation)) in compared.into_iter().chain(beside).enumerate() {
            for _ in 0..100 {
                self.player.perform(operation).await?;
            }
            let before = self.served.process.cpu_us()?;
            let mut took = Vec::with_capacity(times);
            for _ in 0..times {
                let begun = Instant::now();
                self.player.perform(operation).await?;
                took.push(begun.elapsed());
            }
            let cpu_us = (self.served.process.cpu_us()? - before) / times as f64;
            took.sort_unstable();
            let latency_us = took[times / 2].as_secs_f64() * 1e6;
            let compared = number < compared.len();
            figures.push(Figure { operation: name.to_owned(), compared, latency_us, cpu_us });
        }
        Ok(figures)
    }

    /// Runs the mix, one operation after the other.
    pub(crate) async fn mix(&mut self, operations: impl Iterator<Item = Operation>) -> Result<Mixed, Failure> {
        let clerk = &self.player.clerk;
        let (cpu, wire, asked) = (self.served.process.cpu_us()?, clerk.traffic(), clerk.counts().asked);
        let (mut moved, mut count) = (BTreeMap::<Activity, Moved>::new(), 0_u64);
        for operation in operations {
            let (asked, control) = (clerk.counts().asked, clerk.control_bytes());
            let data = self.player.perform(operation).await?;
            // Data that came with control is included in the control bytes, too.
            let with_control = if clerk.counts().asked > asked { data } else { 0 };
            let row = moved.entry(operation.activity).or_default();
            row.calls += 1;
            row.data_bytes += data;
            row.control_bytes += clerk.control_bytes().saturating_sub(control).saturating_sub(with_control);
            count += 1;
        }
        Ok(Mixed {
            cpu_us: (self.served.process.cpu_us()? - cpu) / count as f64,
            wire_bytes: clerk.traffic() - wire,
            moved,
            asked: clerk.counts().asked - asked,
        })
    }
}
