//! Medians with their spread.

use serde_json::{Value as Json, json};

/// The median, the least and the most of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) values: usize,
}

impl Spread {
    /// `None` of no values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0,
            _ => *values.get(middle)?,
        };
        Some(Self { median, least: *values.first()?, most: *values.last()?, values: values.len() })
    }

    pub(crate) fn json(&self) -> Json {
        json!({ "min": rounded(self.least), "max": rounded(self.most), "values": self.values })
    }
}

pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |values: &[f64]| Spread::of(values.to_vec()).map(|spread| (spread.median, spread.least, spread.most));
        assert_eq!(of(&[3.0, 1.0, 9.0]), Some((3.0, 1.0, 9.0)));
        assert_eq!(of(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(of(&[]), None);
    }
}
