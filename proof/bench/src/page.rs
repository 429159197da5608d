//! `catena-bench page`: writes the figures of a summary into the table of `docs/src/figures.md`.

use std::path::Path;

use crate::{Failure, compare::Run};

/// The key that a line of the page explains, if it is a row of the table.
pub(crate) fn key_of(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key)
}

/// Fills the second column: median, and in brackets from p10 to p90.
pub(crate) fn fill(page: &Path, summary: &Path) -> Result<(), Failure> {
    let run = Run::read(summary)?;
    let mut filled = String::new();
    for line in std::fs::read_to_string(page)?.lines() {
        match key_of(line).zip(line.splitn(4, '|').nth(3)) {
            Some((key, rest)) => {
                let (median, [p10, p90]) =
                    run.figure(key).ok_or_else(|| format!("{} has no {key}", summary.display()))?;
                filled.push_str(&format!("| `{key}` | {median} ({p10} to {p90}) |{rest}\n"));
            }
            None => filled.extend([line, "\n"]),
        }
    }
    std::fs::write(page, filled)?;
    println!("{} has the figures of {}", page.display(), summary.display());
    Ok(())
}
