//! The second timeout of rpc-chains section 3.9: finding the node that a silent chain stopped at.
//!
//! The paper runs the chain once more in interactive mode. Following the pointers that its hops left behind reveals the same
//! without doing anything twice, and for every branch at once.

use alloc::{sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainHeader, ChainId, Message, Mode, NodeId, NodeRef, StepKey, Whereabouts};

use super::{
    Chains,
    activation::{Activation, Phase},
    console::untold,
};
use crate::{
    Receipt, Urgency,
    ground::Ground,
    memory::{Fate, StepRecord, Telling},
};

impl Chains {
    /// A chain of this node has been silent for too long, twice.
    pub(crate) fn seek(&mut self, ground: &mut Ground, chain: ChainId) {
        let key = StepKey::first(chain);
        let home = home(ground.me.clone(), None);
        self.follow(ground, &key, &home);
    }

    /// Another node looks for the chain. It is answered only if it sent the chain here or began it, since one question may lead to as many answers as the chain
    /// has steps.
    pub(crate) fn locate(
        &mut self,
        ground: &mut Ground,
        from: NodeId,
        key: &StepKey,
        (origin, entry): (NodeRef, Option<NodeRef>),
    ) {
        let brought = ground.dedup.get(key).is_none_or(|record| record.came_from(from));
        let may_ask = origin.id == key.chain.origin && (brought || from == key.chain.origin);
        let by = ground.party_of(from, Some(key.chain));
        if may_ask && ground.retold.is_due(ground.now, by, key, Telling::Whereabouts, &ground.policy) {
            self.follow(ground, key, &home(Arc::new(origin), entry.map(Arc::new)));
        }
    }

    /// Follows the chain's pointers from this step. Each leads to a later step, so this comes to an end.
    fn follow(&mut self, ground: &mut Ground, key: &StepKey, seeker: &ChainHeader) {
        match ground.dedup.get(key) {
            None => tell(ground, key, Whereabouts::Unknown, seeker),
            Some(StepRecord::Running { session, .. }) => match self.get(*session).cloned() {
                Some(activation) => self.follow_here(ground, key, &activation),
                None => tell(ground, key, Whereabouts::Unknown, seeker),
            },
            Some(StepRecord::Done(done)) => {
                // An end or a refusal is sent again when the hop is repeated, so there is nothing to tell here.
                let Fate::Forwarded(step, kept) = &done.fate else { return };
                let (to, step) = (done.to.last().cloned(), *step);
                match kept.clone() {
                    Some((activation, children)) => {
                        left(ground, &activation, true);
                        let home = activation.state.header.clone();
                        children.iter().for_each(|child| self.follow_own(ground, child, &home));
                    }
                    None => {
                        let Some(to) = to else { return };
                        went(ground, &StepKey { step, ..key.clone() }, &to, true, seeker);
                    }
                }
            }
            Some(StepRecord::Calling { .. }) => {}
        }
    }

    fn follow_here(&mut self, ground: &mut Ground, key: &StepKey, activation: &Activation) {
        // The answer goes to the origin that the chain names, not to one that the asking node names: what the chain has logged is for its origin only.
        let header = &activation.state.header;
        let (at, open): (StepKey, Vec<Branch>) = match &activation.phase {
            Phase::HandingOff(hand_off) => {
                return left(ground, activation, hand_off.delivery.was_taken());
            }
            Phase::Merging(merging) => (merging.at.clone(), merging.open_branches()),
            _ => (activation.key(), Vec::new()),
        };
        let beat = Message::Heartbeat(key.clone(), (*ground.me).clone(), open.clone());
        ground.send_home(header, beat, Receipt::None);
        open.into_iter().for_each(|branch| self.follow_own(ground, &StepKey { branch, ..at.clone() }, header));
    }

    /// Follows a branch if it began here; another node knows of a branch that began elsewhere.
    fn follow_own(&mut self, ground: &mut Ground, key: &StepKey, seeker: &ChainHeader) {
        if ground.dedup.get(key).is_some() {
            self.follow(ground, key, seeker);
        }
    }
}

/// The chain left this node, and its hop was accepted if `taken`. Its lines are sent too: the node that has the chain may be gone, and the lines with it.
fn left(ground: &mut Ground, activation: &Activation, taken: bool) {
    let Phase::HandingOff(hand_off) = &activation.phase else { return };
    let (at, header) = (activation.key(), &activation.state.header);
    if let Some(lines) = untold(activation) {
        ground.send_home(header, Message::Console(at.clone(), activation.state.console_told, lines), Receipt::None);
    }
    went(ground, &at, hand_off.to(), taken, header);
}

/// Tells the origin where the chain went, and continues the search there if the hop was accepted.
fn went(ground: &mut Ground, at: &StepKey, to: &Arc<NodeRef>, taken: bool, seeker: &ChainHeader) {
    let host = to.name.clone();
    tell(ground, at, if taken { Whereabouts::Went(host) } else { Whereabouts::HandingOff(host) }, seeker);
    if taken {
        let (origin, entry) = ((*seeker.origin).clone(), seeker.entry.as_deref().cloned());
        let locate = Message::Locate { key: at.clone(), origin, entry };
        ground.out.send(to, locate, Receipt::None, Urgency::Now);
    }
}

fn tell(ground: &mut Ground, key: &StepKey, whereabouts: Whereabouts, seeker: &ChainHeader) {
    let located = Message::Located(key.clone(), ground.me.name.clone(), whereabouts);
    ground.send_home(seeker, located, Receipt::None);
}

/// A header that leads to the origin of a chain of which this node may know nothing.
const fn home(origin: Arc<NodeRef>, entry: Option<Arc<NodeRef>>) -> ChainHeader {
    ChainHeader { origin, started_at_ms: 0, mode: Mode::Chain, compose: true, entry, credentials: None }
}
