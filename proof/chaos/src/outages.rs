//! When each node was out of reach: delays for that reason are excused.

use crate::faults::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) fault: Fault,
    /// The node's number.
    pub(crate) node: usize,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

#[derive(Default)]
pub(crate) struct Outages(pub(crate) Vec<Outage>);

impl Outages {
    /// Milliseconds between these two times for which all of these nodes were there.
    pub(crate) fn awake_ms(&self, nodes: &[usize], from_ms: u64, to_ms: u64) -> u64 {
        let of_nodes = self.0.iter().filter(|outage| nodes.contains(&outage.node) && outage.fault.silences());
        let times = of_nodes.map(|it| (it.from_ms.max(from_ms), it.to_ms.min(to_ms)));
        let mut times: Vec<_> = times.filter(|(gone_ms, back_ms)| gone_ms < back_ms).collect();
        times.sort_unstable();
        let mut awake_ms = 0;
        let mut at_ms = from_ms;
        for (gone_ms, back_ms) in times {
            awake_ms += gone_ms.saturating_sub(at_ms);
            at_ms = at_ms.max(back_ms);
        }
        awake_ms + to_ms.saturating_sub(at_ms)
    }

    /// Milliseconds between these two times for which the node was not there.
    pub(crate) fn gone_ms(&self, node: usize, from_ms: u64, to_ms: u64) -> u64 {
        to_ms.saturating_sub(from_ms) - self.awake_ms(&[node], from_ms, to_ms.max(from_ms))
    }

    /// Whether the node, or any if none is named, was out of reach for the whole time between these two.
    pub(crate) fn gone_since(&self, node: Option<usize>, since_ms: u64, at_ms: u64) -> bool {
        let is_it = |it: &Outage| {
            node.is_none_or(|node| it.node == node)
                && it.fault.silences()
                && it.from_ms <= since_ms
                && at_ms <= it.to_ms
        };
        self.0.iter().any(is_it)
    }

    /// Whether it is excused that what had to stop at `since_ms` had an effect at this node at `at_ms`: within `soon_ms` of its reachable time after
    /// `since_ms`, or after the outage of some node that may have held it.
    pub(crate) fn excuse(&self, node: usize, since_ms: u64, at_ms: u64, soon_ms: u64) -> bool {
        let is_soon_after = |from_ms| at_ms <= from_ms || self.awake_ms(&[node], from_ms, at_ms) <= soon_ms;
        let held = |outage: &&Outage| outage.from_ms <= since_ms.saturating_add(soon_ms) && outage.to_ms <= at_ms;
        is_soon_after(since_ms) || self.0.iter().filter(held).any(|outage| is_soon_after(outage.to_ms))
    }

    pub(crate) fn between(&self, from_ms: u64, to_ms: u64) -> impl Iterator<Item = &Outage> {
        self.0.iter().filter(move |outage| outage.from_ms <= to_ms && outage.to_ms >= from_ms)
    }

    /// Whether a process of this node that began at `began_ms` had ended by `at_ms`: because it was killed, or because it was a twin.
    pub(crate) fn ended(&self, node: usize, began_ms: u64, at_ms: u64) -> bool {
        let ends = |it: &Outage| match it.fault {
            Fault::Twin => it.from_ms <= began_ms && began_ms <= it.to_ms,
            _ => it.fault.kills() && began_ms < it.from_ms,
        };
        self.0.iter().any(|it| it.node == node && it.to_ms < at_ms && ends(it))
    }

    /// Whether the node, or any if none is named, died between these two times.
    pub(crate) fn died(&self, node: Option<usize>, from_ms: u64, to_ms: u64) -> bool {
        let is_it = |outage: &&Outage| outage.fault.kills() && node.is_none_or(|node| outage.node == node);
        self.between(from_ms, to_ms).any(|outage| is_it(&outage))
    }
}

#[cfg(test)]
mod tests {
    use super::{Outage, Outages};
    use crate::faults::Fault;

    #[test]
    fn times_at_which_a_node_was_gone_do_not_count_however_they_overlap() {
        let gone = |from_ms, to_ms| Outage { fault: Fault::Stop, node: 1, from_ms, to_ms };
        let outages = Outages(vec![gone(20, 40), gone(10, 30), gone(60, 200), Outage { node: 2, ..gone(0, 100) }]);
        assert_eq!(outages.awake_ms(&[1], 0, 100), 10 + 20);
        assert_eq!(outages.awake_ms(&[3], 0, 100), 100);
        assert_eq!(outages.awake_ms(&[1, 2], 0, 110), 0, "never both");
        assert_eq!(outages.awake_ms(&[1, 3], 0, 100), 10 + 20);
        assert_eq!(outages.awake_ms(&[1], 70, 100), 0);
        assert_eq!(outages.awake_ms(&[1], 0, 5), 5);
        assert_eq!(outages.awake_ms(&[1], 300, 310), 10);
    }

    #[test]
    fn a_node_is_gone_since_a_time_until_it_is_back() {
        let outages = Outages(vec![Outage { fault: Fault::Stop, node: 1, from_ms: 20, to_ms: 40 }]);
        assert!(outages.gone_since(Some(1), 20, 40) && outages.gone_since(None, 30, 35));
        assert!(!outages.gone_since(Some(1), 19, 30), "it was there");
        assert!(!outages.gone_since(Some(1), 20, 41), "it is back");
        assert!(!outages.gone_since(Some(2), 20, 40));
    }

    #[test]
    fn a_process_has_ended_when_it_was_killed_after_its_beginning_or_was_a_twin() {
        let it = |fault, from_ms, to_ms| Outage { fault, node: 1, from_ms, to_ms };
        let outages = Outages(vec![it(Fault::Kill, 100, 120), it(Fault::Twin, 200, 300), it(Fault::Stop, 400, 500)]);
        assert!(outages.ended(1, 50, 121) && !outages.ended(1, 50, 119));
        assert!(!outages.ended(1, 110, 1_000), "the one that came after it");
        assert!(outages.ended(1, 250, 301) && !outages.ended(1, 250, 299));
        assert!(!outages.ended(2, 50, 1_000));
    }
}
