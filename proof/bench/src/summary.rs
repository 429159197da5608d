//! The table, and `summary.json`.

use std::{collections::BTreeMap, path::Path};

use serde_json::json;

use crate::stats::Spread;

enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

struct Row {
    key: &'static str,
    what: &'static str,
    spread: Spread,
    goal: Option<Goal>,
}

#[derive(Default)]
pub(crate) struct Summary(Vec<Row>);

impl Summary {
    pub(crate) fn at_most(&mut self, key: &'static str, what: &'static str, spread: Spread, goal: f64) {
        self.0.push(Row { key, what, spread, goal: Some(Goal::AtMost(goal)) });
    }

    pub(crate) fn at_least(&mut self, key: &'static str, what: &'static str, spread: Spread, goal: f64) {
        self.0.push(Row { key, what, spread, goal: Some(Goal::AtLeast(goal)) });
    }

    /// A figure that explains others and has no goal of its own.
    pub(crate) fn plain(&mut self, key: &'static str, what: &'static str, spread: Spread) {
        self.0.push(Row { key, what, spread, goal: None });
    }

    pub(crate) fn print(&self) {
        println!("\n{:<20} {:>10} {:>10} {:>10}  {:>12}  what", "key", "median", "p10", "p90", "goal");
        for row in &self.0 {
            let (goal, met) = match row.goal {
                Some(Goal::AtMost(goal)) => (format!("<= {goal}"), row.spread.median <= goal),
                Some(Goal::AtLeast(goal)) => (format!(">= {goal}"), row.spread.median >= goal),
                None => (String::new(), true),
            };
            let (spread, mark) = (row.spread, if met { "" } else { "  (missed)" });
            println!(
                "{:<20} {:>10.2} {:>10.2} {:>10.2}  {goal:>12}  {}{mark}",
                row.key, spread.median, spread.p10, spread.p90, row.what
            );
        }
    }

    pub(crate) fn write(&self, quick: bool, path: &str) -> std::io::Result<()> {
        let hundredth = |value: f64| (value * 100.0).round() / 100.0;
        let mut medians: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
        let mut spreads = BTreeMap::new();
        for row in &self.0 {
            medians.insert(row.key, json!(hundredth(row.spread.median)));
            spreads.insert(row.key, json!({ "p10": hundredth(row.spread.p10), "p90": hundredth(row.spread.p90) }));
        }
        medians.insert("spread", json!(spreads));
        medians.insert("quick", json!(quick));
        let path = Path::new(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, format!("{:#}\n", json!(medians)))?;
        println!("\nwritten to {}", path.display());
        Ok(())
    }
}
