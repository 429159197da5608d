//! The figures.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Failure, faults::Injected, kinds::Kind};

/// What became of some chains.
#[derive(Serialize, Deserialize, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) chains: usize,
    pub(crate) answered: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
    /// Chains of which a repeatable effect took place more than once, as it may.
    pub(crate) repeated: usize,
    pub(crate) doubled: usize,
    pub(crate) lost: usize,
    /// Effects under another key than that of their step, and exceptions that name a step that is not theirs.
    pub(crate) misnamed: usize,
    pub(crate) hung: usize,
    /// Chains that had an effect long after they had ended.
    pub(crate) ran_on: usize,
    /// Bytes and words that are not what was put there, and locks that two held.
    pub(crate) wrong: usize,
}

impl Tally {
    pub(crate) const fn is_good(&self) -> bool {
        self.doubled + self.lost + self.misnamed + self.hung + self.ran_on + self.wrong == 0
    }

    const fn add(&mut self, other: &Self) {
        self.chains += other.chains;
        self.answered += other.answered;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.repeated += other.repeated;
        self.doubled += other.doubled;
        self.lost += other.lost;
        self.misnamed += other.misnamed;
        self.hung += other.hung;
        self.ran_on += other.ran_on;
        self.wrong += other.wrong;
    }

    fn row(&self, name: &str) {
        let Self { chains, answered, failed, unknown, repeated, doubled, lost, misnamed, hung, ran_on, wrong } = self;
        println!(
            "{name:<12}{chains:>8}{answered:>10}{failed:>8}{unknown:>9}{repeated:>10}{doubled:>9}{lost:>6}{misnamed:>10}{hung:>6}{ran_on:>8}{wrong:>7}"
        );
    }
}

/// A run, or several added up.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct Verdict {
    /// The first seed; each part has the next.
    pub(crate) seed: u64,
    pub(crate) parts: usize,
    pub(crate) seconds: u64,
    pub(crate) faults: usize,
    pub(crate) faults_by_kind: Injected,
    /// How often a service moved from one node to another.
    #[serde(default)]
    pub(crate) moves: usize,
    /// Chains, calls and service functions that were still there when all had ended.
    pub(crate) left_running: usize,
    #[serde(flatten)]
    pub(crate) all: Tally,
    pub(crate) kinds: BTreeMap<String, Tally>,
    /// How many chains had ended when something was first found wrong.
    pub(crate) found_after: Option<usize>,
    /// What is wrong with each chain with which something is.
    pub(crate) findings: Vec<String>,
}

impl Verdict {
    pub(crate) fn add(&mut self, kind: Kind, tally: &Tally, finding: Option<String>) {
        self.all.add(tally);
        self.kinds.entry(kind.name()).or_default().add(tally);
        if let Some(finding) = finding {
            // Told to people at once.
            eprintln!("{finding}");
            self.found_after.get_or_insert(self.all.chains);
            self.findings.push(finding);
        }
    }

    /// Adds the next part.
    pub(crate) fn add_part(&mut self, part: Self) {
        let before = self.all.chains;
        self.found_after = self.found_after.or(part.found_after.map(|after| before + after));
        self.parts += part.parts;
        self.seconds += part.seconds;
        self.faults += part.faults;
        self.moves += part.moves;
        self.left_running += part.left_running;
        self.all.add(&part.all);
        self.findings.extend(part.findings);
        for (kind, tally) in part.kinds {
            self.kinds.entry(kind).or_default().add(&tally);
        }
        for (fault, count) in part.faults_by_kind {
            *self.faults_by_kind.entry(fault).or_default() += count;
        }
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.all.is_good() && self.left_running == 0
    }

    /// In one line.
    pub(crate) fn brief(&self) -> String {
        let Tally { chains, answered, failed, unknown, .. } = self.all;
        let (seconds, faults, findings) = (self.seconds, self.faults, self.findings.len());
        format!(
            "{chains} chains in {seconds} s, {faults} faults: {answered} answered, {failed} failed, {unknown} unknown; {findings} findings"
        )
    }

    pub(crate) fn print(&self) {
        let Tally { chains, answered, failed, unknown, repeated, doubled, lost, misnamed, hung, ran_on, wrong } =
            self.all;
        println!(
            "kind          chains  answered  failed  unknown  repeated  doubled  lost  misnamed  hung  ran on  wrong"
        );
        for (name, tally) in &self.kinds {
            tally.row(name);
        }
        println!("{chains:>8}  chains run, in {} s", self.seconds);
        println!("{:>8}  faults injected: {}", self.faults, list(&self.faults_by_kind));
        println!("{answered:>8}  answered");
        println!("{failed:>8}  failed before their effect at the step they name");
        println!("{unknown:>8}  outcome unknown after the step they name");
        println!("{repeated:>8}  chains of which a repeatable effect took place more than once");
        println!("{doubled:>8}  other effects, answers or replies that took place twice");
        println!("{lost:>8}  effects and replies that took place, or did not, otherwise than was told");
        println!("{misnamed:>8}  effects and exceptions that name another step than theirs");
        println!("{hung:>8}  chains that did not end");
        println!("{ran_on:>8}  chains that ran on after they had ended");
        println!("{wrong:>8}  values that are not what was put there, and locks that two held");
        println!("{:>8}  service moves while they were called", self.moves);
        println!("{:>8}  things left running when all had ended", self.left_running);
    }

    /// Whole or not at all: a run that is broken off goes on with what it finds.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(std::fs::rename(unfinished, path)?)
    }
}

fn list(counts: &Injected) -> String {
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}
