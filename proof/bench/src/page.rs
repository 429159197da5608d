//! `catena-bench page`: writes the figures of a summary into the table of `docs/src/figures.md`.

use std::path::Path;

use crate::{
    Failure,
    compare::Run,
    keys::{KEYS, OPTIONAL},
};

/// The key that a line of the page explains, if it is a row of the table.
pub(crate) fn key_of(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key)
}

/// Fills the second column: median, and in brackets from p10 to p90; and the third: the goal, and whether it is met.
pub(crate) fn fill(page: &Path, summary: &Path) -> Result<(), Failure> {
    let run = Run::read(summary)?;
    let mut filled = String::new();
    for line in std::fs::read_to_string(page)?.lines() {
        match key_of(line).zip(line.splitn(5, '|').nth(4)) {
            Some((key, says)) => {
                let (_, _, goal) =
                    KEYS.iter().find(|(known, ..)| *known == key).ok_or_else(|| format!("{key} is no key"))?;
                let (measured, goal) = match run.figure(key) {
                    Some((median, [p10, p90])) => (format!("{median} ({p10} to {p90})"), goal.judge(median)),
                    None if OPTIONAL.contains(&key) => ("not measured".to_owned(), String::new()),
                    None => return Err(format!("{} has no {key}", summary.display()).into()),
                };
                filled.push_str(&format!("| `{key}` | {measured} | {goal} |{says}\n"));
            }
            None => filled.extend([line, "\n"]),
        }
    }
    std::fs::write(page, filled)?;
    println!("{} has the figures of {}", page.display(), summary.display());
    Ok(())
}
