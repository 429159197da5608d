//! `catena-bench page`: writes the figures of a summary, or of several runs, into the table of `docs/src/figures.md`.

use std::path::{Path, PathBuf};

use crate::{
    Failure,
    compare::Run,
    keys::{KEYS, OPTIONAL},
};

/// The key that a line of the page explains, if it is a row of the table.
pub(crate) fn key_of(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key)
}

/// What stands in the page before a table that is a file beside the summary, and after it.
const TABLE_BEGINS: &str = "<!-- the table ";
const TABLE_ENDS: &str = "<!-- the end of the table -->";

/// Fills the second column: median, and in brackets from p10 to p90; the third: the goal, and whether it is met; and each table that is a file of its own.
/// Of several runs each figure is that of the run in whose middle it lies, and the tables are those of the run in the middle of the list.
pub(crate) fn fill(page: &Path, summaries: &[String]) -> Result<(), Failure> {
    let runs = summaries.iter().map(|path| Run::read(Path::new(path))).collect::<Result<Vec<_>, _>>()?;
    let summary = Path::new(summaries.get(summaries.len() / 2).ok_or("no summary")?);
    let mut filled = String::new();
    let text = std::fs::read_to_string(page)?;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix(TABLE_BEGINS).and_then(|rest| rest.strip_suffix(" -->")) {
            lines.find(|line| *line == TABLE_ENDS).ok_or_else(|| format!("the table {name} has no end"))?;
            filled.push_str(&format!("{line}\n\n{}\n{TABLE_ENDS}\n", table(&beside(summary, name))?));
            continue;
        }
        match key_of(line).zip(line.splitn(5, '|').nth(4)) {
            Some((key, says)) => {
                let (_, _, goal) =
                    KEYS.iter().find(|(known, ..)| *known == key).ok_or_else(|| format!("{key} is no key"))?;
                let (measured, goal) = match middle(&runs, key) {
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
    println!("{} has the figures of {}", page.display(), summaries.join(", "));
    Ok(())
}

fn middle(runs: &[Run], key: &str) -> Option<(f64, [f64; 2])> {
    let mut figures = runs.iter().map(|run| run.figure(key)).collect::<Option<Vec<_>>>()?;
    figures.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    figures.get(figures.len() / 2).copied()
}

/// The file of this table that was written with a summary, of whatever name that is.
fn beside(summary: &Path, name: &str) -> PathBuf {
    let stem = summary.file_stem().unwrap_or_default().to_string_lossy();
    summary.with_file_name(name.replacen("summary", &stem, 1))
}

/// A CSV file, of which no value has a comma, as a table of the page.
fn table(csv: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(csv).map_err(|why| format!("{}: {why}", csv.display()))?;
    let mut rows = text.lines().map(|row| format!("| {} |\n", row.replace(',', " | ")));
    let head = rows.next().unwrap_or_default();
    let rule = format!("|{}\n", " --- |".repeat(head.matches('|').count().saturating_sub(1)));
    Ok([head, rule].into_iter().chain(rows).collect())
}
