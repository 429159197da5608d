//! Which delay and bandwidth there are between two sites. For development and demonstrations only.

use std::collections::HashMap;

/// What a link between two sites is like, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkShape {
    /// One-way delay, in microseconds: half the round trip of a ping.
    pub delay_us: u64,
    /// Bandwidth in each direction, in bytes per second; 0: unlimited.
    pub bytes_per_s: u64,
}

impl LinkShape {
    /// A shape from its two numbers.
    pub const fn new(delay_us: u64, bytes_per_s: u64) -> Self {
        Self { delay_us, bytes_per_s }
    }
}

/// Pairs of sites and the shape between them. A pair it does not name is not shaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    pairs: HashMap<(String, String), LinkShape>,
    inside: Option<LinkShape>,
}

impl Topology {
    /// No pairs: nothing is shaped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the shape between two sites, in both directions.
    #[must_use]
    pub fn with(mut self, a: &str, b: &str, shape: LinkShape) -> Self {
        self.pairs.insert(pair(a, b), shape);
        self
    }

    /// Sets the shape between two nodes of one site, for every site.
    #[must_use]
    pub fn with_inside(mut self, shape: LinkShape) -> Self {
        self.inside = Some(shape);
        self
    }

    /// The shape between two sites, or `None`: not shaped.
    pub fn between(&self, a: &str, b: &str) -> Option<LinkShape> {
        if a == b {
            return self.pairs.get(&pair(a, b)).copied().or(self.inside);
        }
        self.pairs.get(&pair(a, b)).copied()
    }

    /// The four sites of the RPC Chains paper: Mountain View `mtv`, Redmond `red`, Cambridge `cam`, Beijing `bei`.
    ///
    /// Section 5.1: ping round trips in ms (halved here for one way), TCP bandwidth in MB/s (10^6). Inside a site,
    /// section 5.3.1: 2 ms of link latency, 10 MB/s.
    pub fn paper() -> Self {
        let shape = |round_trip_ms: u64, kb_per_s: u64| LinkShape::new(round_trip_ms * 500, kb_per_s * 1_000);
        Self::new()
            .with("mtv", "red", shape(32, 6_300))
            .with("mtv", "bei", shape(180, 2_100))
            .with("mtv", "cam", shape(240, 1_400))
            .with("red", "bei", shape(146, 8_500))
            .with("red", "cam", shape(210, 8_600))
            .with("bei", "cam", shape(354, 2_400))
            .with_inside(LinkShape::new(2_000, 10_000_000))
    }
}

fn pair(a: &str, b: &str) -> (String, String) {
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    (a.to_owned(), b.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_table() {
        let paper = Topology::paper();
        assert_eq!(paper.between("bei", "cam"), Some(LinkShape::new(177_000, 2_400_000)));
        assert_eq!(paper.between("cam", "bei"), paper.between("bei", "cam"));
        assert_eq!(paper.between("mtv", "mtv"), Some(LinkShape::new(2_000, 10_000_000)));
        assert_eq!(paper.between("mtv", "paris"), None);
    }
}
