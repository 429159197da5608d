//! The second timeout of rpc-chains section 3.9: finding the node that a silent chain stopped at.
//!
//! The paper runs the chain once more in interactive mode. Following the pointers that its hops left behind tells the same
//! without doing anything twice, and for every branch at once.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, Message, NodeId, NodeRef, StepKey, Whereabouts};

use crate::{
    Node, Receipt, Time, Urgency,
    activation::{Activation, Phase},
    console::untold,
    splitting::open_branches,
    steps::Done,
};

/// Who asks: the origin of the chain, and the node by which it can be reached.
pub(crate) type Seeker = (NodeRef, Option<NodeRef>);

/// What this node has to do about a step that is looked for.
enum Trail {
    /// It is here: with the branches that it waits for, by the step that split.
    Here {
        at: StepKey,
        open: Vec<Branch>,
    },
    /// It left for there, under this key, and was taken over or not; with what it said that the origin has not been told.
    Left {
        to: Arc<NodeRef>,
        at: StepKey,
        taken: bool,
        children: Vec<StepKey>,
        said: Option<Box<Message>>,
    },
    /// It ended here, or was not taken in; whoever sent it again hears that.
    Over,
    Unknown,
}

impl Node {
    /// A chain of this node has been silent for too long, twice.
    pub(crate) fn seek(&mut self, now: Time, chain: ChainId) {
        let key = StepKey { chain, branch: Branch::root(), step: 0 };
        self.follow(now, &key, &((*self.me).clone(), None));
    }

    /// Another node looks for it: it sent it here, or began it. Nobody else is answered: one question may lead to as many
    /// answers as the chain has steps.
    pub(crate) fn locate(&mut self, now: Time, from: NodeId, key: &StepKey, seeker: &Seeker) {
        let brought = match self.steps.get(key) {
            None => true,
            Some(Done::Running(session)) => self.activations.get(*session).is_some_and(|a| a.before.id == from),
            Some(done) => done.came_from(from),
        };
        if seeker.0.id == key.chain.origin && (brought || from == key.chain.origin) {
            self.follow(now, key, seeker);
        }
    }

    /// Steps only grow on the way, so it comes to an end.
    fn follow(&mut self, now: Time, key: &StepKey, seeker: &Seeker) {
        // The chain knows better where its origin is than whoever asks: what it said is nobody else's.
        let home = self.home_of(key);
        let seeker = home.as_ref().unwrap_or(seeker);
        match self.trail(key) {
            Trail::Here { at, open } => {
                let beat = Message::Heartbeat(key.clone(), self.me.name.clone(), open.clone());
                self.send_home(now, &seeker.0, seeker.1.as_ref(), beat, key.clone());
                open.into_iter().for_each(|branch| self.follow_own(now, &StepKey { branch, ..at.clone() }, seeker));
            }
            Trail::Left { to, at, taken, children, said } => {
                // Whoever took it over may be gone, and its lines with it.
                if let Some(said) = said {
                    self.send_home(now, &seeker.0, seeker.1.as_ref(), *said, key.clone());
                }
                let host = to.name.clone();
                let where_to = if taken { Whereabouts::Went(host) } else { Whereabouts::Handing(host) };
                self.tell_whereabouts(now, &at, where_to, seeker);
                if taken {
                    let (origin, entry) = seeker.clone();
                    self.send(&to, Message::Locate { key: at, origin, entry }, Receipt::None, Urgency::Now);
                }
                children.iter().for_each(|child| self.follow_own(now, child, seeker));
            }
            Trail::Over => {}
            Trail::Unknown => self.tell_whereabouts(now, key, Whereabouts::Unknown, seeker),
        }
    }

    fn home_of(&self, key: &StepKey) -> Option<Seeker> {
        let activation = match self.steps.get(key)? {
            Done::Running(session) => self.activations.get(*session)?,
            Done::Forwarded(activation) | Done::Split { handed: activation, .. } => activation,
            _ => return None,
        };
        let charter = &activation.baggage.charter;
        Some((charter.origin.clone(), charter.entry.clone()))
    }

    /// A branch that may have begun here; of one that began elsewhere another node knows.
    fn follow_own(&mut self, now: Time, key: &StepKey, seeker: &Seeker) {
        if self.steps.get(key).is_some() {
            self.follow(now, key, seeker);
        }
    }

    fn tell_whereabouts(&mut self, now: Time, key: &StepKey, where_to: Whereabouts, (origin, entry): &Seeker) {
        let host: String = self.me.name.clone();
        let located = Message::Located(key.clone(), host, where_to);
        self.send_home(now, origin, entry.as_ref(), located, key.clone());
    }

    fn trail(&self, key: &StepKey) -> Trail {
        match self.steps.get(key) {
            None => Trail::Unknown,
            Some(Done::Running(session)) => match self.activations.get(*session) {
                Some(activation) => trail_of(activation, false, &[]),
                None => Trail::Unknown,
            },
            Some(Done::Forwarded(activation)) => trail_of(activation, true, &[]),
            Some(Done::Split { handed, children }) => trail_of(handed, true, children),
            Some(Done::Sent(_) | Done::Refused(_) | Done::Calling { .. } | Done::Called { .. }) => Trail::Over,
        }
    }
}

fn trail_of(activation: &Activation, taken: bool, children: &[StepKey]) -> Trail {
    match &activation.phase {
        Phase::Handing(custody) => Trail::Left {
            to: custody.to.clone(),
            at: custody.key.clone(),
            taken: taken || custody.accepted,
            children: children.to_vec(),
            said: untold(activation)
                .map(|lines| Box::new(Message::Console(activation.key(), activation.baggage.console_told, lines))),
        },
        Phase::Gathering(gathering) => Trail::Here { at: gathering.at.clone(), open: open_branches(gathering) },
        Phase::Landing(_) | Phase::Live | Phase::Packing { .. } => {
            Trail::Here { at: activation.key(), open: Vec::new() }
        }
    }
}
