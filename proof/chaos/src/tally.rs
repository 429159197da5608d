//! The figures.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use crate::{Failure, kinds::Kind};

/// What became of some chains.
#[derive(Serialize, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) chains: usize,
    pub(crate) answered: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
    pub(crate) doubled: usize,
    pub(crate) lost: usize,
    pub(crate) hung: usize,
    /// Chains that had an effect long after they were cancelled.
    pub(crate) ran_on: usize,
}

impl Tally {
    pub(crate) const fn is_good(&self) -> bool {
        self.doubled + self.lost + self.hung + self.ran_on == 0
    }

    const fn add(&mut self, other: &Self) {
        self.chains += other.chains;
        self.answered += other.answered;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.doubled += other.doubled;
        self.lost += other.lost;
        self.hung += other.hung;
        self.ran_on += other.ran_on;
    }

    fn row(&self, name: &str) {
        let Self { chains, answered, failed, unknown, doubled, lost, hung, ran_on } = self;
        println!("{name:<12}{chains:>8}{answered:>10}{failed:>8}{unknown:>9}{doubled:>9}{lost:>6}{hung:>6}{ran_on:>8}");
    }
}

/// A run.
#[derive(Serialize)]
pub(crate) struct Verdict {
    seed: u64,
    faults: usize,
    /// Chains, calls and service functions that were still there when all had ended.
    left_running: usize,
    #[serde(flatten)]
    all: Tally,
    kinds: BTreeMap<String, Tally>,
}

impl Verdict {
    pub(crate) fn new(seed: u64, faults: usize, left_running: usize) -> Self {
        Self { seed, faults, left_running, all: Tally::default(), kinds: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, kind: Kind, tally: &Tally) {
        self.all.add(tally);
        self.kinds.entry(kind.name()).or_default().add(tally);
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.all.is_good() && self.left_running == 0
    }

    pub(crate) fn print(&self) {
        let Tally { chains, answered, failed, unknown, doubled, lost, hung, ran_on } = self.all;
        println!("kind          chains  answered  failed  unknown  doubled  lost  hung  ran on");
        for (name, tally) in &self.kinds {
            tally.row(name);
        }
        println!("{chains:>8}  chains run");
        println!("{:>8}  faults injected: nodes killed and restarted, or stopped for a while", self.faults);
        println!("{answered:>8}  answered");
        println!("{failed:>8}  failed before their effect at the step they name");
        println!("{unknown:>8}  outcome unknown after the step they name");
        println!("{doubled:>8}  effects that took place twice");
        println!("{lost:>8}  effects that took place, or did not, otherwise than was told");
        println!("{hung:>8}  chains that did not end");
        println!("{ran_on:>8}  chains that ran on after they were cancelled");
        println!("{:>8}  things left running when all had ended", self.left_running);
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")?;
        println!("written to {}", path.display());
        Ok(())
    }
}
