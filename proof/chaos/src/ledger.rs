//! The files in which nodes note their effects.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Failure, plan::Effect};

/// When each effect took place, by chain and index: once, if all is well.
pub(crate) type Effects = BTreeMap<(usize, usize), Vec<u64>>;

/// The file of one node.
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// One write of one line: a process that is killed leaves it whole or not at all.
    pub(crate) fn note(&self, effect: &Effect) -> std::io::Result<()> {
        let line = format!("{} {} {}\n", effect.chain, effect.index, now_ms());
        (&self.0).write_all(line.as_bytes())
    }
}

pub(crate) fn read(files: impl Iterator<Item = PathBuf>) -> Result<Effects, Failure> {
    let mut effects = Effects::new();
    for file in files {
        for line in std::fs::read_to_string(file)?.lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().ok_or("an effect's line is broken");
            let key = (word()?.parse()?, word()?.parse()?);
            effects.entry(key).or_default().push(word()?.parse()?);
        }
    }
    Ok(effects)
}

/// By the machine's clock, which all of its processes share.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
