//! Runs the program, as `make chaos` does.
#![allow(dead_code, reason = "each test file uses a part")]

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

pub(crate) struct Ran {
    pub(crate) output: Output,
    /// What it wrote to its result file.
    pub(crate) figures: serde_json::Value,
}

pub(crate) fn chaos(arguments: &[&str], stderr: Stdio) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    chaos_into(arguments, stderr, &folder.path().join("result.json"))
}

/// Leaves its result there.
pub(crate) fn chaos_into(arguments: &[&str], stderr: Stdio, result: &Path) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catena-chaos"));
    let child = command.args(arguments).arg("--result").arg(result).stdout(Stdio::piped()).stderr(stderr).spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    let written = std::fs::read(result).unwrap_or_else(|why| panic!("no figures ({why}): {output:?}"));
    Ran { output, figures: serde_json::from_slice(&written).unwrap() }
}

impl Ran {
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.figures[key].as_u64().unwrap()
    }

    /// The same of one kind of chains.
    pub(crate) fn count_of(&self, kind: &str, key: &str) -> u64 {
        self.figures["kinds"][kind][key].as_u64().unwrap()
    }
}
