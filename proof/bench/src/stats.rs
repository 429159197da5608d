//! Medians with their spread.

/// What a series of measurements says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) p10: f64,
    pub(crate) median: f64,
    pub(crate) p90: f64,
    /// How many measurements there were.
    pub(crate) values: usize,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: usize| values.get(values.len() * part / 10).or(values.last()).copied().unwrap_or(f64::NAN);
        Self { p10: at(1), median: at(5), p90: at(9), values: values.len() }
    }
}

/// Both series, pair by pair: what was measured next to each other in time, so that a drift of the machine's speed cancels out.
pub(crate) fn pairs(ours: &[f64], theirs: &[f64], figure: impl Fn(f64, f64) -> f64) -> Spread {
    Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| figure(*ours, *theirs)).collect())
}

/// Each of ours as a part of theirs.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Spread {
    pairs(ours, theirs, |ours, theirs| ours / theirs)
}
