//! Names being looked up, and who waits for them.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};
use catena_wire::NodeId;

use crate::{Action, LookupId, SessionId, Time, collections::Timers, outbox::Outbox};

/// What waits for a name to be looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A plain call, by its number.
    Call(u64),
    /// A chain that is to go there, from this step.
    Chain(SessionId, u32),
}

/// One question, and all who asked it.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    pub(crate) service: String,
    /// Instances that were asked before: an answer is of no use to whoever has asked others.
    pub(crate) avoid: Vec<NodeId>,
    pub(crate) waiters: Vec<Waiter>,
    /// The node that is moving the service, and says where to: nobody else is asked until it is late or gone.
    mover: Option<NodeId>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lookups {
    next: u64,
    lookups: BTreeMap<LookupId, Lookup>,
    /// By what they ask.
    asked: BTreeMap<(String, Vec<NodeId>), LookupId>,
    /// By the service that is being moved, and the node that moves it.
    moving: BTreeMap<(String, NodeId), LookupId>,
    late: Timers<LookupId>,
    waiting: usize,
}

impl Lookups {
    /// How many wait.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.lookups.is_empty()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.late.next()
    }

    /// Has a name looked up. Those who avoid the same instances share one look-up.
    pub(crate) fn look_up(&mut self, out: &mut Outbox, service: &str, waiter: Waiter, mut avoid: Vec<NodeId>) {
        avoid.sort_unstable();
        avoid.dedup();
        let question = (service.to_string(), avoid);
        let id = match self.asked.get(&question) {
            Some(id) => *id,
            None => {
                let id = self.insert(service, question.1.clone(), None);
                self.asked.insert(question.clone(), id);
                out.ask(Action::Resolve { lookup: id, service: question.0, avoid: question.1 });
                id
            }
        };
        self.join(id, waiter);
    }

    /// Waits for the node that moves the service to say where it is; until then nobody else is asked.
    pub(crate) fn wait_for(&mut self, service: &str, mover: NodeId, waiter: Waiter, until: Time) {
        let id = match self.moving.get(&(service.to_string(), mover)) {
            Some(id) => *id,
            None => {
                let id = self.insert(service, Vec::new(), Some(mover));
                self.moving.insert((service.to_string(), mover), id);
                self.late.set(id, until);
                id
            }
        };
        self.join(id, waiter);
    }

    fn insert(&mut self, service: &str, avoid: Vec<NodeId>, mover: Option<NodeId>) -> LookupId {
        self.next += 1;
        let id = LookupId(self.next);
        self.lookups.insert(id, Lookup { service: service.to_string(), avoid, waiters: Vec::new(), mover });
        id
    }

    fn join(&mut self, id: LookupId, waiter: Waiter) {
        if let Some(lookup) = self.lookups.get_mut(&id) {
            lookup.waiters.push(waiter);
            self.waiting += 1;
        }
    }

    /// An answer has come: who waits for it.
    pub(crate) fn answered(&mut self, id: LookupId) -> Option<Lookup> {
        let lookup = self.lookups.remove(&id)?;
        match lookup.mover {
            Some(mover) => drop(self.moving.remove(&(lookup.service.clone(), mover))),
            None => drop(self.asked.remove(&(lookup.service.clone(), lookup.avoid.clone()))),
        }
        self.late.clear(id);
        self.waiting -= lookup.waiters.len();
        Some(lookup)
    }

    /// That node has moved it: who waits for that.
    pub(crate) fn moved(&mut self, service: &str, mover: NodeId) -> Option<Lookup> {
        let id = *self.moving.get(&(service.to_string(), mover))?;
        self.answered(id)
    }

    /// A mover that is gone does not say where to: others are asked.
    pub(crate) fn mover_lost(&mut self, out: &mut Outbox, node: NodeId) {
        let lost: Vec<_> = self.moving.iter().filter(|((_, mover), _)| *mover == node).map(|(_, id)| *id).collect();
        lost.into_iter().for_each(|id| self.ask_others(out, id));
    }

    pub(crate) fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(id) = self.late.take_due(now) {
            self.ask_others(out, id);
        }
    }

    fn ask_others(&mut self, out: &mut Outbox, id: LookupId) {
        let Some(Lookup { service, waiters, .. }) = self.answered(id) else { return };
        waiters.into_iter().for_each(|waiter| self.look_up(out, &service, waiter, Vec::new()));
    }
}
