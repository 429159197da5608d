//! `catena-bench compare A B C`: which figures moved between runs by more than their spread.

use std::path::Path;

use serde_json::Value as Json;

use crate::{
    Failure,
    keys::{KEYS, OPTIONAL},
};

/// The ratio of p90 to p10 above which a figure is taken to have several modes.
const WIDE: f64 = 2.5;
/// A figure in percent may be close to 0: it is wide only if p10 and p90 are also this many points apart.
const WIDE_POINTS: f64 = 15.0;
/// Medians that differ by less than this part have not moved: the few values of a run may agree more closely than runs can.
const SAME_PART: f64 = 0.02;
/// The same for times. In a ratio the machine's own speed cancels out; in a time it does not, and it changes by some percent every quarter of an hour.
const SAME_TIME_PART: f64 = 0.1;

/// One summary, as it was written.
pub(crate) struct Run(Json);

impl Run {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text =
            std::fs::read_to_string(path).map_err(|why| format!("{}: {why}; make bench writes it", path.display()))?;
        let run: Json = serde_json::from_str(&text)?;
        match run["whole"] == true {
            true => Ok(Self(run)),
            false => Err(format!("{} is of a smoke run: no figures", path.display()).into()),
        }
    }

    /// Median, and p10 to p90.
    pub(crate) fn figure(&self, key: &str) -> Option<(f64, [f64; 2])> {
        let spread = &self.0["spread"][key];
        Some((self.0[key].as_f64()?, [spread["p10"].as_f64()?, spread["p90"].as_f64()?]))
    }
}

/// Says which moved; fails if any did.
pub(crate) fn compare(paths: &[String]) -> Result<(), Failure> {
    let runs: Vec<_> = paths.iter().map(|path| Run::read(Path::new(path))).collect::<Result<_, _>>()?;
    let mut unsteady = 0;
    for (key, what, _) in KEYS {
        let figures: Option<Vec<_>> = runs.iter().map(|run| run.figure(key)).collect();
        let Some(figures) = figures else {
            if OPTIONAL.contains(key) {
                continue;
            }
            return Err(format!("a run has no {key}").into());
        };
        let medians: Vec<_> = figures.iter().map(|(median, _)| *median).collect();
        let verdict = match () {
            () if has_moved(key, &figures) => "MOVED",
            () if figures.iter().any(|(_, spread)| is_wide(key, spread)) => "WIDE ",
            () => "holds",
        };
        unsteady += usize::from(verdict != "holds");
        println!("{verdict}  {key:<24} {medians:?}  {what}");
    }
    match unsteady {
        0 => Ok(()),
        _ => {
            Err(format!("{unsteady} figures moved by more than their spread, or have two modes: mend or drop them")
                .into())
        }
    }
}

/// Whether one run had several modes: its median is then that of whichever came more often.
fn is_wide(key: &str, [p10, p90]: &[f64; 2]) -> bool {
    let few_points = key.ends_with("_pct") && p90 - p10 <= WIDE_POINTS;
    !few_points && *p90 > WIDE * p10.abs() + 0.011
}

/// Whether the medians lie further apart than the widest spread of one run.
fn has_moved(key: &str, figures: &[(f64, [f64; 2])]) -> bool {
    let is_time = ["_us", "_ns", "_ms"].iter().any(|unit| key.ends_with(unit));
    let same_part = if is_time { SAME_TIME_PART } else { SAME_PART };
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MIN, f64::max);
    let highest = most(&mut figures.iter().map(|(median, _)| *median));
    let lowest = -most(&mut figures.iter().map(|(median, _)| -median));
    let spread = most(&mut figures.iter().map(|(_, [p10, p90])| p90 - p10));
    // What is written is rounded.
    highest - lowest > spread.max(same_part * highest.abs()) + 0.011
}

#[cfg(test)]
mod tests {
    use super::{has_moved, is_wide};

    #[test]
    fn a_figure_moves_when_its_medians_are_further_apart_than_its_spread() {
        let cases = [
            ("a", [(10.0, [9.0, 11.0]), (11.5, [11.0, 12.0])], false),
            ("a", [(10.0, [9.0, 11.0]), (12.5, [12.0, 13.0])], true),
            ("a", [(1.0, [1.0, 1.0]), (1.01, [1.0, 1.0])], false),
            ("a", [(-3.0, [-3.0, -3.0]), (-4.0, [-4.0, -4.0])], true),
            ("a", [(8_540.0, [8_530.0, 8_550.0]), (8_640.0, [8_630.0, 8_650.0])], false),
            ("a", [(100.0, [100.0, 101.0]), (109.0, [108.0, 109.0])], true),
            ("a_us", [(100.0, [100.0, 101.0]), (109.0, [108.0, 109.0])], false),
            ("a_us", [(100.0, [100.0, 101.0]), (115.0, [114.0, 115.0])], true),
        ];
        for (key, figures, moved) in cases {
            assert_eq!(has_moved(key, &figures), moved, "{key} {figures:?}");
        }
    }

    #[test]
    fn what_is_a_difference_is_wide_by_points_and_everything_else_by_its_parts() {
        for (key, spread, wide) in [
            ("read_shm_ns", [30.0, 75.0], false),
            ("read_shm_ns", [30.0, 76.0], true),
            ("adaptive_worst_pct", [2.0, 10.0], false),
            ("adaptive_worst_pct", [2.0, 18.0], true),
            ("custody_cost_pct", [14.0, 31.0], false),
        ] {
            assert_eq!(is_wide(key, &spread), wide, "{key} {spread:?}");
        }
    }
}
