//! Medians with their spread.

use crate::Failure;

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

    /// As tables show it: the median, and in brackets from the tenth to the ninetieth percentile, with so many digits behind the point.
    pub(crate) fn shown(&self, digits: usize) -> String {
        let Self { p10, median, p90, .. } = self;
        format!("{median:.digits$} ({p10:.digits$} to {p90:.digits$})")
    }
}

/// What is measured in turns, round after round, each series in its place. The first round warms everything up, and does not count.
pub(crate) async fn in_rounds<const N: usize, F>(
    rounds: usize,
    mut round: impl FnMut() -> F,
) -> Result<[Vec<f64>; N], Failure>
where
    F: Future<Output = Result<[f64; N], Failure>>,
{
    let mut series = [const { Vec::new() }; N];
    for number in 0..=rounds {
        let measured = round().await?;
        if number > 0 {
            series.iter_mut().zip(measured).for_each(|(values, value)| values.push(value));
        }
    }
    Ok(series)
}

/// Puts what was measured at one time behind what was measured before.
pub(crate) fn append<const N: usize>(all: &mut [Vec<f64>; N], more: [Vec<f64>; N]) {
    all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
}

/// Both series, pair by pair: what was measured next to each other in time, so that a drift of the machine's speed cancels out.
pub(crate) fn pairs(ours: &[f64], theirs: &[f64], figure: impl Fn(f64, f64) -> f64) -> Spread {
    Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| figure(*ours, *theirs)).collect())
}

/// Each of ours as a part of theirs.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Spread {
    pairs(ours, theirs, |ours, theirs| ours / theirs)
}
