//! The workload of the paper's Table 1: what an NFS server with 80 to 100 workstations was asked over several days.

use fastrand::Rng;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Activity {
    /// Get File Attribute.
    Getattr,
    /// Lookup File Name.
    Lookup,
    /// Read File Data.
    Read,
    /// Null Ping Call.
    Null,
    /// Read Symbolic Link.
    Readlink,
    /// Read Directory Contents.
    Readdir,
    /// Read File System Stats.
    Statfs,
    /// Write File Data.
    Write,
    /// Other: here, changes of attributes.
    Setattr,
}

/// One row of Tables 1a and 1b.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What is done.
    pub activity: Activity,
    /// How often (Table 1a).
    pub calls: u64,
    /// Millions of bytes of control, and of data (Table 1b); 0 where the table has no row.
    pub control_mb: u64,
    /// See there.
    pub data_mb: u64,
}

const fn row(activity: Activity, calls: u64, control_mb: u64, data_mb: u64) -> Row {
    Row { activity, calls, control_mb, data_mb }
}

/// Tables 1a and 1b.
pub const TABLE: [Row; 9] = [
    row(Activity::Getattr, 8_960_671, 214, 481),
    row(Activity::Lookup, 8_840_866, 246, 761),
    row(Activity::Read, 4_478_036, 185, 2_176),
    row(Activity::Null, 3_602_730, 0, 0),
    row(Activity::Readlink, 1_628_256, 59, 19),
    row(Activity::Readdir, 981_345, 54, 1_862),
    row(Activity::Statfs, 149_142, 4, 3),
    row(Activity::Write, 109_712, 4, 271),
    row(Activity::Setattr, 109_986, 0, 0),
];

impl Row {
    /// Bytes of data of one call, on average.
    #[must_use]
    pub fn data_bytes(&self) -> f64 {
        self.data_mb as f64 * 1e6 / self.calls as f64
    }
}

/// A distribution of sizes: many small ones and a few large ones, whose mean is that of the table.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    small: (u32, u32),
    large: u32,
    /// How often a size is large.
    share: f64,
}

impl Sizes {
    fn with_mean(mean: f64, small: (u32, u32), large: u32) -> Self {
        let low = f64::from(small.0 + small.1) / 2.0;
        Self { small, large, share: (mean - low) / (f64::from(large) - low) }
    }

    fn draw(&self, rng: &mut Rng) -> u32 {
        if rng.f64() < self.share { self.large } else { rng.u32(self.small.0..=self.small.1) }
    }
}

/// One operation: its kind, and how many bytes of data it moves where that varies. Names are chosen by [`Operation::pick`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What is done.
    pub activity: Activity,
    /// Bytes of data for reads, writes, links and directories.
    pub bytes: u32,
    /// Selects one of the existing files: reduced modulo their number.
    pub pick: u32,
}

/// An endless sequence of operations, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: Rng,
    reads: Sizes,
    writes: Sizes,
    links: Sizes,
    directories: Sizes,
}

/// Bytes of the largest read and write, as in NFSv2.
pub const BYTES_MAX: u32 = 8_192;
/// Bytes of data of the small and the large directory.
pub const DIRECTORY_BYTES: [u32; 2] = [256, 2_560];
/// Bytes of the shorter and the longer link.
pub const LINK_BYTES: [u32; 2] = [11, 12];

impl Workload {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mean = |activity| TABLE.iter().find(|row| row.activity == activity).map_or(0.0, Row::data_bytes);
        let [few, many] = DIRECTORY_BYTES;
        let [short, long] = LINK_BYTES;
        Self {
            rng: Rng::with_seed(seed),
            reads: Sizes::with_mean(mean(Activity::Read), (1, 511), BYTES_MAX),
            writes: Sizes::with_mean(mean(Activity::Write), (1, 511), BYTES_MAX),
            links: Sizes::with_mean(mean(Activity::Readlink), (short, short), long),
            directories: Sizes::with_mean(mean(Activity::Readdir), (few, few), many),
        }
    }
}

impl Iterator for Workload {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let all: u64 = TABLE.iter().map(|row| row.calls).sum();
        let mut at = self.rng.u64(..all);
        let activity = TABLE.iter().find(|row| {
            let here = at < row.calls;
            at = at.saturating_sub(row.calls);
            here
        })?;
        let activity = activity.activity;
        let bytes = match activity {
            Activity::Read => self.reads.draw(&mut self.rng),
            Activity::Write => self.writes.draw(&mut self.rng),
            Activity::Readlink => self.links.draw(&mut self.rng),
            Activity::Readdir => self.directories.draw(&mut self.rng),
            _ => 0,
        };
        Some(Operation { activity, bytes, pick: self.rng.u32(..) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn mix_and_sizes_are_those_of_the_table() {
        const DRAWN: usize = 2_000_000;
        let drawn: Vec<Operation> = Workload::new(7).take(DRAWN).collect();
        assert_eq!(drawn[..100], Workload::new(7).take(100).collect::<Vec<_>>(), "the same from the same seed");
        let all: u64 = TABLE.iter().map(|row| row.calls).sum();
        assert_eq!(all, 28_860_744, "the table's own sum");
        for row in TABLE {
            let these: Vec<_> = drawn.iter().filter(|one| one.activity == row.activity).collect();
            let (share, wanted) = (these.len() as f64 / DRAWN as f64, row.calls as f64 / all as f64);
            assert!((share - wanted).abs() < 0.002, "{:?}: {share} for {wanted}", row.activity);
            if matches!(row.activity, Activity::Read | Activity::Write | Activity::Readlink | Activity::Readdir) {
                let mean = these.iter().map(|one| f64::from(one.bytes)).sum::<f64>() / these.len() as f64;
                assert!((mean / row.data_bytes() - 1.0).abs() < 0.05, "{:?}: {mean}", row.activity);
            }
        }
    }
}
