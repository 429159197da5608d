//! The ten sites of the paper's evaluation (Quatrain section 5.2), and the round trips between them.

use catena::{LinkShape, Topology};

/// A site: one university in the paper's Corsair, one data center in its evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// As the paper names it, in lower case: services are named after it.
    pub id: &'static str,
    /// Where it is.
    pub place: &'static str,
    /// The region of [`ROUND_TRIPS_MS`]'s source that stands for it.
    pub region: &'static str,
}

/// How many sites there are.
pub const COUNT: usize = 10;

/// In the paper's order.
pub const SITES: [Site; COUNT] = [
    Site { id: "a1", place: "Virginia", region: "East US" },
    Site { id: "a2", place: "Northern California", region: "West US" },
    Site { id: "a3", place: "Ireland", region: "North Europe" },
    Site { id: "a4", place: "Singapore", region: "Southeast Asia" },
    Site { id: "a5", place: "Japan", region: "Japan East" },
    Site { id: "r1", place: "Chicago", region: "North Central US" },
    Site { id: "r2", place: "Dallas", region: "South Central US" },
    Site { id: "r3", place: "London", region: "UK South" },
    Site { id: "g1", place: "Ashburn", region: "East US 2" },
    Site { id: "g2", place: "San Francisco", region: "West US" },
];

/// Round trips in milliseconds, from each site to those after it.
///
/// Source: Microsoft, *Azure network round-trip latency statistics* (95th percentile over the 30 days up to 30 July 2026,
/// <https://learn.microsoft.com/azure/networking/azure-network-latency>), row of the first site, column of the second. Northern
/// California and San Francisco lie in the same region, of which the table has no figure: 2 ms, what Azure promises between the zones of one region.
#[rustfmt::skip]
const ROUND_TRIPS_MS: [&[u64]; COUNT] = [
    &[74, 74, 229, 165, 26, 44, 80, 11, 74],
    &[138, 172, 110, 55, 38, 144, 71, 2],
    &[236, 232, 95, 112, 15, 79, 137],
    &[74, 214, 203, 183, 232, 171],
    &[152, 140, 237, 168, 109],
    &[41, 100, 29, 53],
    &[120, 42, 44],
    &[87, 144],
    &[71],
    &[],
];

/// Between two machines of one site, one way.
const INSIDE_US: u64 = 250;

/// The round trip between two sites, in microseconds; inside a site the short way between two machines.
#[must_use]
pub fn round_trip_us(a: usize, b: usize) -> u64 {
    let (low, high) = (a.min(b), a.max(b));
    if low == high {
        return 2 * INSIDE_US;
    }
    ROUND_TRIPS_MS.get(low).and_then(|row| row.get(high - low - 1)).map_or(0, |ms| ms * 1_000)
}

/// The links between the sites. Their bandwidth is not shaped: a phone number is small.
#[must_use]
pub fn topology() -> Topology {
    let mut topology = Topology::new().with_inside(LinkShape::new(INSIDE_US, 0));
    for (a, one) in SITES.iter().enumerate() {
        for (b, other) in SITES.iter().enumerate().skip(a + 1) {
            topology = topology.with(one.id, other.id, LinkShape::new(round_trip_us(a, b) / 2, 0));
        }
    }
    topology
}

/// The number of a site, by its name.
#[must_use]
pub fn by_id(id: &str) -> Option<usize> {
    SITES.iter().position(|site| site.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_its_round_trip() {
        assert!(ROUND_TRIPS_MS.iter().enumerate().all(|(at, row)| row.len() == COUNT - 1 - at));
        let [singapore, japan, london] = ["a4", "A5", "r3"].map(|id| by_id(id).unwrap_or(COUNT));
        assert_eq!(round_trip_us(singapore, japan), 74_000);
        assert_eq!(round_trip_us(london, singapore), 183_000);
        assert_eq!(topology().between("r3", "a4"), Some(LinkShape::new(91_500, 0)));
        assert_eq!(topology().between("r3", "r3"), Some(LinkShape::new(INSIDE_US, 0)));
    }
}
