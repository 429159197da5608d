//! Where a chain's continuation runs (rpc-chains sections 3.7 and 7.2): at the server, or where it is.

use alloc::collections::BTreeMap;
use catena_wire::{Hash, Mode, NodeId};

use crate::{GuestCall, Node, SessionId};

/// Services and functions whose sizes are remembered.
const LEARNT_MAX: usize = 4_096;
/// How much the newest of a series counts: one part in so many.
const NEWEST_PART: u64 = 4;
/// What a function's state is taken to be before any was seen: a small JavaScript program's.
const STATE_BYTES_AT_FIRST: u64 = 4_096;

/// What a result is taken to be before any was seen: small, so that a chain with a large state stays once, and learns.
const RESULT_BYTES_AT_FIRST: u64 = 1_024;

/// What is known of the way to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// There and back, microseconds.
    pub round_trip_us: u64,
    /// Bytes per second; 0 where unknown.
    pub bytes_per_s: u64,
}

/// What adaptive chains have learnt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    links: BTreeMap<NodeId, Link>,
    /// Bytes of functions' continuations, by function.
    states: BTreeMap<Hash, u64>,
    /// Bytes of results, by `service/function`.
    results: BTreeMap<alloc::string::String, u64>,
}

impl Links {
    /// Another run of that node has another id.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.links.remove(&node);
    }
}

fn learn<K: Ord>(known: &mut BTreeMap<K, u64>, key: K, bytes: u64) {
    if let Some(average) = known.get_mut(&key) {
        *average = (*average * (NEWEST_PART - 1) + bytes) / NEWEST_PART;
    } else if known.len() < LEARNT_MAX {
        known.insert(key, bytes);
    }
}

impl Node {
    /// How far a node is, as measured.
    pub fn on_link_measured(&mut self, node: NodeId, link: Link) {
        if self.links.links.len() < LEARNT_MAX || self.links.links.contains_key(&node) {
            self.links.links.insert(node, link);
        }
    }

    pub(crate) fn learn_state(&mut self, code: Hash, bytes: usize) {
        learn(&mut self.links.states, code, bytes as u64);
    }

    pub(crate) fn learn_result(&mut self, target: &str, bytes: usize) {
        if let Some(average) = self.links.results.get_mut(target) {
            *average = (*average * (NEWEST_PART - 1) + bytes as u64) / NEWEST_PART;
        } else {
            learn(&mut self.links.results, target.into(), bytes as u64);
        }
    }

    /// Whether the chain goes where its one call goes.
    pub(crate) fn moves(&self, session: SessionId, call: &GuestCall) -> bool {
        let Some(activation) = self.activations.get(session) else { return false };
        match activation.baggage.charter.mode {
            Mode::Chain => true,
            Mode::Interactive => false,
            Mode::Adaptive => self.moving_is_quicker(activation.baggage.code, call),
        }
    }

    /// Moving takes the state there; staying brings the result back. What comes after is as far from there as from here,
    /// for all that is known, and the round trip back is saved.
    fn moving_is_quicker(&self, code: Hash, call: &GuestCall) -> bool {
        let known = self.names.get(&call.service).and_then(|place| self.links.links.get(&place.node.id));
        let Some(link) = known.filter(|link| link.bytes_per_s > 0) else { return true };
        let target = [call.service.as_str(), "/", call.function.as_str()].concat();
        let state = self.links.states.get(&code).copied().unwrap_or(STATE_BYTES_AT_FIRST);
        let result = self.links.results.get(&target).copied().unwrap_or(RESULT_BYTES_AT_FIRST);
        let transfer_us = |bytes: u64| bytes.saturating_mul(1_000_000) / link.bytes_per_s;
        transfer_us(state) <= link.round_trip_us / 2 + transfer_us(result)
    }
}
