//! The files in which nodes note their effects.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use catena::StepKey;

use crate::{Failure, plan::Effect};

/// One time that an effect took place: once, if all is well.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The number of its node.
    pub(crate) node: usize,
    /// That was the second of its name.
    pub(crate) by_twin: bool,
    pub(crate) at_ms: u64,
    /// The chain, branch and step of which the service was told; a plain call has none.
    pub(crate) key: Option<(String, String, u32)>,
}

/// By chain and index.
pub(crate) type Effects = BTreeMap<(usize, usize), Vec<Run>>;

/// The file of one node.
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// One write of one line: a process that is killed leaves it whole or not at all.
    pub(crate) fn note(&self, effect: &Effect, key: Option<&StepKey>) -> std::io::Result<()> {
        let key = key.map(|key| format!(" {} {} {}", key.chain, key.step, key.branch)).unwrap_or_default();
        let line = format!("{} {} {}{key}\n", effect.chain, effect.index, now_ms());
        (&self.0).write_all(line.as_bytes())
    }
}

/// What all nodes have noted: of each its number, whether it is a twin, and its file, which is not there if it never ran.
pub(crate) fn read(files: impl Iterator<Item = (usize, bool, PathBuf)>) -> Result<Effects, Failure> {
    let mut effects = Effects::new();
    for (node, by_twin, file) in files.filter(|(.., file)| file.exists()) {
        for line in std::fs::read_to_string(file)?.lines() {
            let (key, run) = parse(node, line).ok_or("an effect's line is broken")?;
            effects.entry(key).or_default().push(Run { by_twin, ..run });
        }
    }
    Ok(effects)
}

fn parse(node: usize, line: &str) -> Option<((usize, usize), Run)> {
    let mut words = line.split(' ');
    let effect = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let at_ms = words.next()?.parse().ok()?;
    let key = match words.next() {
        None => None,
        Some(chain) => {
            let step = words.next()?.parse().ok()?;
            Some((chain.to_owned(), words.next()?.to_owned(), step))
        }
    };
    Some((effect, Run { node, by_twin: false, at_ms, key }))
}

/// By the machine's clock, which all of its processes share.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
