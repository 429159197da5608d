//! The table, and `summary.json`.

use std::{collections::BTreeMap, path::Path};

use serde_json::json;

use crate::{
    Failure,
    keys::{Goal, KEYS},
    stats::Spread,
};

/// What was measured, by key.
#[derive(Default)]
pub(crate) struct Summary(BTreeMap<&'static str, Spread>);

impl Summary {
    pub(crate) fn put(&mut self, key: &'static str, spread: Spread) {
        self.0.insert(key, spread);
    }

    /// Says whether each key that is explained was measured, and no other.
    ///
    /// # Errors
    /// It was not so.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if !self.0.keys().copied().eq(KEYS.iter().map(|(key, ..)| *key).collect::<std::collections::BTreeSet<_>>()) {
            return Err(format!("what was measured is not what keys.rs lists: {:?}", self.0.keys()).into());
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
        Ok(())
    }

    fn print(&self) {
        println!("\n{:<24} {:>10} {:>10} {:>10}  {:>10}  what", "key", "median", "p10", "p90", "goal");
        for (key, what, goal) in KEYS {
            let Some(spread) = self.0.get(key) else { continue };
            let wanted = match goal {
                Goal::AtMost(goal) => format!("<= {goal}"),
                Goal::AtLeast(goal) => format!(">= {goal}"),
                Goal::Open => String::new(),
            };
            let mark = if goal.is_met(spread.median) { "" } else { "  (missed)" };
            let Spread { p10, median, p90, .. } = spread;
            println!("{key:<24} {median:>10.2} {p10:>10.2} {p90:>10.2}  {wanted:>10}  {what}{mark}");
        }
    }

    fn write(&self, path: &Path, whole: bool) -> std::io::Result<()> {
        let hundredth = |value: f64| (value * 100.0).round() / 100.0;
        let medians = self.0.iter().map(|(key, spread)| ((*key).to_owned(), json!(hundredth(spread.median))));
        let mut all: serde_json::Map<_, _> = medians.collect();
        let spread_of = |spread: &Spread| {
            let Spread { p10, p90, values, .. } = *spread;
            json!({ "p10": hundredth(p10), "p90": hundredth(p90), "values": values })
        };
        let spreads: BTreeMap<_, _> = self.0.iter().map(|(key, spread)| (*key, spread_of(spread))).collect();
        all.insert("spread".into(), json!(spreads));
        all.insert("whole".into(), json!(whole));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, format!("{:#}\n", json!(all)))
    }
}
