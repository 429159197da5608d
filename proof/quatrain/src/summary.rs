//! `summary.json`: medians by key, their spread, and the tables beside the paper's.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::{
    Failure,
    spread::{Spread, rounded},
};

/// Where each application's values are, in the order of the paper.
const PARTS: [&str; 5] = ["micro", "stress", "corsair", "glickr", "mapreduce"];

/// Key, what it says, the paper's value, our goal (at most, unless `true`).
const KEYS: [(&str, &str, &str, f64, bool); 10] = [
    ("aat_ideal", "micro benchmark: AAT / when the parts were ready", "1", 1.01, false),
    ("preturn_cpu_pct", "the same: processor time of 20 parts beyond that of one, % of the task", "5", 1.0, false),
    ("load_kept_pct", "under load: calls completed, offered up to 80 % of a limit", "", 99.0, true),
    ("load_beyond_pct", "the same beyond it: calls done / the limit", "", 80.0, true),
    ("corsair_pct", "Corsair: AAT of replies / standard calls", "43.9", 42.0, false),
    ("corsair_failure_pct", "the same with one database stopped", "6.6", 5.0, false),
    ("corsair_even_pct", "the same, members spread evenly over the sites", "43.9", f64::INFINITY, false),
    ("glickr_pct", "Glickr: AAT of replies / standard calls", "58.7", 55.0, false),
    ("mr_top20_pct", "MapReduce: top 20 proved, of the time of the whole count", "60", 50.0, false),
    ("mr_reduce_at_half_pct", "MapReduce: reduces done when half of the maps are", "35", 45.0, true),
];

/// Puts together what the applications have written.
///
/// # Errors
/// A file that is there cannot be read.
pub(crate) fn read(folder: &Path) -> Result<Json, Failure> {
    let (mut keys, mut spreads, mut tables, mut missing) = (Map::new(), Map::new(), Map::new(), Vec::new());
    for part in PARTS {
        let path = folder.join(part).with_extension("json");
        if !path.exists() {
            missing.push(part);
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let json: Json = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        for (key, value) in json.as_object().into_iter().flatten() {
            match value {
                Json::Number(_) => {
                    keys.insert(key.clone(), value.clone());
                }
                Json::Object(values) if key == "values" => add(values, &mut keys, &mut spreads),
                _ => tables.entry(part).or_insert_with(|| json!({}))[key] = value.clone(),
            }
        }
    }
    keys.insert("spread".into(), Json::Object(spreads));
    keys.insert("tables".into(), Json::Object(tables));
    keys.insert("missing".into(), json!(missing));
    Ok(Json::Object(keys))
}

fn add(values: &Map<String, Json>, keys: &mut Map<String, Json>, spreads: &mut Map<String, Json>) {
    for (key, values) in values {
        let values = values.as_array().into_iter().flatten().filter_map(Json::as_f64).collect();
        if let Some(spread) = Spread::of(values) {
            keys.insert(key.clone(), json!(rounded(spread.median)));
            spreads.insert(key.clone(), spread.json());
        }
    }
}

/// Shows the figures that have a goal.
pub(crate) fn print(summary: &Json) {
    println!("{:<24} {:>8} {:>18} {:>7} {:>8}  what", "key", "ours", "from and to", "paper", "goal");
    for (key, what, paper, goal, at_least) in KEYS {
        let Some(ours) = summary[key].as_f64() else { continue };
        let ends = &summary["spread"][key];
        let ends = ends["min"].as_f64().zip(ends["max"].as_f64());
        let ends = ends.map_or(String::new(), |(least, most)| format!("{least:.2} to {most:.2}"));
        let met = if at_least { ours >= goal } else { ours <= goal };
        let goal = match (goal.is_finite(), at_least) {
            (false, _) => String::new(),
            (true, false) => format!("<= {goal}"),
            (true, true) => format!(">= {goal}"),
        };
        let mark = if met { "" } else { "  (missed)" };
        println!("{key:<24} {ours:>8.2} {ends:>18} {paper:>7} {goal:>8}  {what}{mark}");
    }
    for part in summary["missing"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        println!("{part}: nothing was measured");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_become_medians_and_what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let corsair =
            json!({ "values": { "corsair_pct": [40.0, 30.0, 50.0] }, "corsair_bound_pct": 28, "table_1": { "a": 1 } });
        std::fs::write(folder.path().join("corsair.json"), corsair.to_string()).unwrap();
        let summary = read(folder.path()).unwrap();
        assert_eq!(summary["corsair_pct"], json!(40.0));
        assert_eq!(summary["corsair_bound_pct"], json!(28));
        assert_eq!(summary["spread"]["corsair_pct"], json!({ "min": 30.0, "max": 50.0, "values": 3 }));
        assert_eq!(summary["tables"]["corsair"]["table_1"], json!({ "a": 1 }));
        assert_eq!(summary["missing"], json!(["micro", "stress", "glickr", "mapreduce"]));
        std::fs::write(folder.path().join("micro.json"), "no JSON").unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("micro.json"));
    }
}
