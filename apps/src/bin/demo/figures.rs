//! What was measured, and `result.json`.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::drawing::Stretch;

/// One run of one way of doing it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) ms: f64,
    /// Bytes over the client's links.
    pub(crate) client_bytes: u64,
    /// What it did when.
    pub(crate) stretches: Vec<Stretch>,
}

/// All runs of one way of doing it.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The least that it could take over these links.
    pub(crate) bound_ms: f64,
    runs: Vec<Run>,
}

impl Way {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, bound_ms: f64::NAN, runs: Vec::new() }
    }

    pub(crate) fn add(&mut self, run: Run) {
        self.runs.push(run);
        self.runs.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    }

    /// The run in the middle: what is shown is one that took place.
    pub(crate) fn median(&self) -> Run {
        self.runs.get(self.runs.len() / 2).cloned().unwrap_or_default()
    }
}

/// A job done in several ways.
#[derive(Debug)]
pub(crate) struct Job {
    /// The best of the ways by plain calls: the baseline.
    pub(crate) plain: Way,
    /// The other ways by plain calls.
    pub(crate) slower: Vec<Way>,
    pub(crate) chain: Way,
}

impl Job {
    /// The quickest of `plain` is the baseline.
    pub(crate) fn new(mut plain: Vec<Way>, chain: Way) -> Option<Self> {
        plain.sort_by(|a, b| a.median().ms.total_cmp(&b.median().ms));
        let slower = plain.split_off(plain.len().min(1));
        plain.pop().map(|plain| Self { plain, slower, chain })
    }

    /// How many times as fast the chain is.
    pub(crate) fn ratio(&self) -> f64 {
        self.plain.median().ms / self.chain.median().ms
    }

    fn json(&self) -> Json {
        let rounded = |value: f64, parts: f64| (value * parts).round() / parts;
        let (plain, chain) = (self.plain.median(), self.chain.median());
        let slower = self.slower.iter().map(|way| (way.name, rounded(way.median().ms, 10.0)));
        json!({
            "rpc_ms": rounded(plain.ms, 10.0),
            "rpc_bound_ms": rounded(self.plain.bound_ms, 10.0),
            "rpc_way": self.plain.name,
            "rpc_other_ways_ms": slower.collect::<std::collections::BTreeMap<_, _>>(),
            "rpc_client_bytes": plain.client_bytes,
            "chain_ms": rounded(chain.ms, 10.0),
            "bound_ms": rounded(self.chain.bound_ms, 10.0),
            "chain_client_bytes": chain.client_bytes,
            "ratio": rounded(self.ratio(), 100.0),
        })
    }
}

pub(crate) fn write(path: &Path, copy: &Job, mail: &Job, picture: &Json) -> std::io::Result<()> {
    let result = json!({ "copy": copy.json(), "mail": mail.json(), "picture": picture });
    std::fs::write(path, format!("{result:#}\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn way(name: &'static str, took_ms: &[f64]) -> Way {
        let mut way = Way::new(name);
        took_ms.iter().for_each(|ms| way.add(Run { ms: *ms, ..Run::default() }));
        way
    }

    #[test]
    fn the_quickest_plain_way_is_the_baseline() {
        let job = Job::new(vec![way("a", &[9.0, 30.0, 8.0]), way("b", &[7.0, 6.0, 50.0])], way("c", &[3.5])).unwrap();
        assert_eq!((job.plain.name, job.slower[0].name, job.ratio()), ("b", "a", 2.0));
        assert!(Job::new(Vec::new(), way("c", &[1.0])).is_none());
    }
}
