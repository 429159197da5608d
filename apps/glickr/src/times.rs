//! How long each engine takes for each keyword.
//!
//! The paper shows response times as curves (Figure 9) and gives no numbers for them. What it says of them: within a keyword they come in "stairs", clusters
//! with gaps between; a few engines are stragglers with long tails; over all they cover three orders of magnitude; and the time until the last has answered
//! is 842.0 to 9843.7 ms, 2808.3 ms on average, while the average over the engines is 1433.8 ms (Table 2). The distribution here has that form, and its
//! parameters were fitted to those averages, over many seeds.

use crate::draw::Draw;

/// The time of a keyword's first stair, in milliseconds: the median over keywords, and the spread.
const BASE_MS: f64 = 945.0;
const BASE_SPREAD: f64 = 0.36;
/// How far a keyword may be from the median.
const BASE_MIN: f64 = 0.55;
const BASE_MAX: f64 = 2.2;
/// Engines that have the answer at hand, and how long those take, in milliseconds.
const AT_HAND: f64 = 0.045;
const AT_HAND_MS: [f64; 2] = [10.0, 90.0];
/// The stairs: the share of the engines in each, and its time as a multiple of the first stair's; then the spread within one stair.
const STAIRS: [(f64, f64); 3] = [(0.43, 1.0), (0.27, 1.6), (0.225, 1.88)];
const STAIR_SPREAD: f64 = 0.07;
/// The remaining engines are stragglers: how far they are beyond the last stair on average, as a multiple of its time.
const STRAGGLER_TAIL: f64 = 1.45;
/// Nothing in the paper took longer, in milliseconds.
const MS_MAX: f64 = 9_843.7;

/// The response time of an engine for a keyword, in milliseconds.
#[must_use]
pub fn response_ms(seed: &str, keyword: &str, engine: &str) -> f64 {
    let base = Draw::of(&[seed, "keyword", keyword]).spread(BASE_SPREAD).clamp(BASE_MIN, BASE_MAX) * BASE_MS;
    let mut draw = Draw::of(&[seed, "engine", keyword, engine]);
    let mut place = draw.unit();
    if place < AT_HAND {
        return AT_HAND_MS[0] + draw.unit() * (AT_HAND_MS[1] - AT_HAND_MS[0]);
    }
    place -= AT_HAND;
    for (part, multiple) in STAIRS {
        if place < part {
            return (base * multiple * draw.spread(STAIR_SPREAD)).min(MS_MAX);
        }
        place -= part;
    }
    let [.., (_, last)] = STAIRS;
    (base * last * (1.0 + draw.tail(STRAGGLER_TAIL))).min(MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ENGINES, keywords::KEYWORDS};

    /// Over many seeds, so that it holds whatever the seed of a run.
    #[test]
    fn the_times_are_as_the_papers_table_2_says() {
        let (mut slowest, mut average, mut seen) = (Vec::new(), Vec::new(), [f64::MAX, 0.0_f64]);
        for seed in 0..50 {
            for keyword in KEYWORDS {
                let times = ENGINES.map(|engine| response_ms(&seed.to_string(), keyword, engine.id));
                slowest.push(times.iter().copied().fold(0.0, f64::max));
                average.push(times.iter().sum::<f64>() / times.len() as f64);
                seen = times.iter().fold(seen, |[least, most], time| [least.min(*time), most.max(*time)]);
            }
        }
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let near = |measured: f64, paper: f64| (measured / paper - 1.0).abs() < 0.05;
        assert!(near(mean(&slowest), 2_808.3), "{}", mean(&slowest));
        assert!(near(mean(&average), 1_433.8), "{}", mean(&average));
        assert!(seen[0] < 11.0 && seen[1] > 9_000.0 && seen[1] <= MS_MAX, "{seen:?}");
    }
}
