//! Copies of a hop: the same step may be handed on by two nodes, or on two ways of its chain, and may mean another call each time.

use catena_wire::{Hop, NodeId, NodeRef, StepKey};

use super::activation::Activation;
use crate::memory::Way;

/// Which copy of a hop a head or a tail is of. A tail completes a head of its own copy only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopCopy {
    pub(super) key: StepKey,
    from: NodeId,
    /// The number of its [`Way`].
    way: u64,
}

impl HopCopy {
    /// The copy that this node has sent.
    #[must_use]
    pub fn of(from: &NodeRef, hop: &Hop) -> Self {
        Self { key: hop.key.clone(), from: from.id, way: Way::number_of(hop.duplicate.as_ref()) }
    }

    /// Whether this is the copy by which the chain has come.
    pub(super) fn brought(&self, activation: &Activation) -> bool {
        (self.from, self.way) == (activation.before.id, Way::number_of(activation.state.duplicate.as_deref()))
    }
}
