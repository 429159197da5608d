//! Where a chain's continuation runs (rpc-chains sections 3.7 and 7.2): at the server that is called, or where the chain is.

use alloc::{collections::BTreeMap, string::String};
use catena_wire::{Hash, NodeId};

use crate::collections::Recent;

/// Limit on the links, on the functions whose state sizes are remembered, and on those whose result sizes are.
const LEARNT_MAX: usize = 4_096;
/// The weight of the newest value in an average is one part in this many.
const NEWEST_PART: u64 = 4;
/// The size that a function's state is assumed to have before any was seen: that of a small JavaScript program.
const STATE_BYTES_AT_FIRST: u64 = 4_096;
/// The size that a result is assumed to have before any was seen: small, so that a chain with a large state stays once, and learns.
const RESULT_BYTES_AT_FIRST: u64 = 1_024;

/// What is known of the way to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Round trip, in microseconds.
    pub round_trip_us: u64,
    /// Bytes per second; 0 where unknown.
    pub bytes_per_s: u64,
}

/// What adaptive chains have learnt of links, states and results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    links: BTreeMap<NodeId, Link>,
    /// Bytes of functions' continuations, by function.
    states: Recent<Hash, u64>,
    /// Bytes of results, by `service/function`.
    results: Recent<String, u64>,
}

fn learn<K: Ord + Clone>(known: &mut Recent<K, u64>, key: K, bytes: u64) {
    let average = known.entry(key, LEARNT_MAX, || bytes);
    *average = (*average * (NEWEST_PART - 1) + bytes) / NEWEST_PART;
}

impl Placement {
    pub(crate) fn learn_link(&mut self, node: NodeId, link: Link) {
        if self.links.len() < LEARNT_MAX || self.links.contains_key(&node) {
            self.links.insert(node, link);
        }
    }

    pub(crate) fn learn_state(&mut self, code: Hash, bytes: usize) {
        learn(&mut self.states, code, bytes as u64);
    }

    pub(crate) fn learn_result(&mut self, service: &str, function: &str, bytes: usize) {
        learn(&mut self.results, target(service, function), bytes as u64);
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.links.remove(&node);
    }

    /// Whether it is quicker to move to that node for a call than to stay. Moving takes the state there; staying brings the result back. As far as is known,
    /// what comes after is equally far from both nodes; moving saves the way back.
    pub(crate) fn moving_is_quicker(&self, code: Hash, node: NodeId, service: &str, function: &str) -> bool {
        let Some(link) = self.links.get(&node).filter(|link| link.bytes_per_s > 0) else { return true };
        let state = self.states.get(&code).copied().unwrap_or(STATE_BYTES_AT_FIRST);
        let result = self.results.get(&target(service, function)).copied().unwrap_or(RESULT_BYTES_AT_FIRST);
        let transfer_us = |bytes: u64| bytes.saturating_mul(1_000_000) / link.bytes_per_s;
        transfer_us(state) <= link.round_trip_us / 2 + transfer_us(result)
    }
}

fn target(service: &str, function: &str) -> String {
    [service, "/", function].concat()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn it_still_learns_when_it_has_seen_more_functions_than_it_remembers() {
        let (mut placement, node, code) = (Placement::default(), NodeId(1), Hash([7; 32]));
        placement.learn_link(node, Link { round_trip_us: 0, bytes_per_s: 1_000_000 });
        for number in 0..=LEARNT_MAX {
            let mut other = [0; 32];
            other[..8].copy_from_slice(&number.to_le_bytes());
            placement.learn_state(Hash(other), 1);
            placement.learn_result("bank", &number.to_string(), 1);
        }
        assert!(!placement.moving_is_quicker(code, node, "bank", "rate"), "nothing is known of either");
        placement.learn_result("bank", "rate", 1_000_000);
        assert!(placement.moving_is_quicker(code, node, "bank", "rate"), "the result is larger than the state");
        placement.learn_state(code, 2_000_000);
        assert!(!placement.moving_is_quicker(code, node, "bank", "rate"), "and now it is not");
    }
}
