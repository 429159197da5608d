//! The table, and `summary.json`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::json;

use crate::{
    Failure,
    keys::{Goal, KEYS, OPTIONAL},
    stats::Spread,
};

/// What was measured, by key.
#[derive(Default)]
pub(crate) struct Summary {
    figures: BTreeMap<&'static str, Spread>,
    /// Tables of a paper beside ours, by name: CSV.
    tables: BTreeMap<&'static str, String>,
}

impl Summary {
    pub(crate) fn put(&mut self, key: &'static str, spread: Spread) {
        self.figures.insert(key, spread);
    }

    pub(crate) fn put_table(&mut self, name: &'static str, csv: String) {
        self.tables.insert(name, csv);
    }

    /// Checks that each key of `keys.rs` was measured, except for optional ones, and no other.
    ///
    /// # Errors
    /// The keys differ.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let known: BTreeSet<_> = KEYS.iter().map(|(key, ..)| *key).collect();
        let measured: BTreeSet<_> = self.figures.keys().copied().collect();
        if !known.symmetric_difference(&measured).all(|key| OPTIONAL.contains(key)) {
            return Err(format!("what was measured is not what keys.rs lists: {:?}", self.figures.keys()).into());
        }
        Ok(())
    }

    /// Shows all figures, and writes them; `whole` if all were measured, and not what a smoke run saw.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn close(&self, path: &Path, whole: bool) -> Result<(), Failure> {
        self.print();
        self.write(path, whole)?;
        println!("\nwritten to {}", path.display());
        for (name, csv) in &self.tables {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let beside = path.with_file_name(format!("{stem}-{name}.csv"));
            std::fs::write(&beside, csv)?;
            println!("written to {}", beside.display());
        }
        Ok(())
    }

    /// Shows all figures.
    pub(crate) fn print(&self) {
        println!("\n{:<24} {:>10} {:>10} {:>10}  {:>10}  what", "key", "median", "p10", "p90", "goal");
        for (key, what, goal) in KEYS {
            let Some(spread) = self.figures.get(key) else { continue };
            let wanted = match goal {
                Goal::AtMost(goal) => format!("<= {goal}"),
                Goal::AtLeast(goal) => format!(">= {goal}"),
                Goal::Open => String::new(),
            };
            let mark = if goal.is_met(spread.median) { "" } else { "  (missed)" };
            let Spread { p10, median, p90, .. } = spread;
            println!("{key:<24} {median:>10.2} {p10:>10.2} {p90:>10.2}  {wanted:>10}  {what}{mark}");
        }
        for (name, csv) in &self.tables {
            println!("\n{name}\n{csv}");
        }
    }

    fn write(&self, path: &Path, whole: bool) -> std::io::Result<()> {
        let medians = self.figures.iter().map(|(key, spread)| ((*key).to_owned(), json!(short(spread.median))));
        let mut all: serde_json::Map<_, _> = medians.collect();
        let spread_of = |spread: &Spread| {
            let Spread { p10, p90, values, .. } = *spread;
            json!({ "p10": short(p10), "p90": short(p90), "values": values })
        };
        let spreads: BTreeMap<_, _> = self.figures.iter().map(|(key, spread)| (*key, spread_of(spread))).collect();
        all.insert("spread".into(), json!(spreads));
        all.insert("whole".into(), json!(whole));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, format!("{:#}\n", json!(all)))
    }
}

/// To the hundredth, or to three digits where a value is so small that hundredths would say nothing.
fn short(value: f64) -> f64 {
    let digits = if value == 0.0 { 2.0 } else { (2.0 - value.abs().log10().floor()).max(2.0) };
    let scale = 10_f64.powf(digits);
    (value * scale).round() / scale
}
