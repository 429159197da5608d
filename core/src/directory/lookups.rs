//! Names being looked up, and who waits for them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};
use catena_wire::NodeId;

use crate::{Action, LookupId, SessionId, Time, collections::Timers, outbox::Outbox};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Waiter {
    /// A plain call, by its number.
    Call(u64),
    /// A chain that is to go there, from this step.
    Chain(SessionId, u32),
}

impl Waiter {
    /// None is less.
    const FIRST: Self = Self::Call(0);
}

/// What is asked: those who ask the same share one look-up.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Question {
    pub(crate) service: String,
    /// Instances that were asked before: an answer is of no use to whoever has asked others.
    pub(crate) avoid: Vec<NodeId>,
    /// The node that is moving the service, and says where to: nobody else is asked until it is late or gone.
    mover: Option<NodeId>,
}

/// One question, and all who asked it.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    pub(crate) question: Question,
    pub(crate) waiters: Vec<Waiter>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lookups {
    next: u64,
    questions: BTreeMap<LookupId, Question>,
    asked: BTreeMap<Question, LookupId>,
    late: Timers<LookupId>,
    /// Who waits for which, and by whom that is.
    waiters: BTreeSet<(LookupId, Waiter)>,
    waits_for: BTreeMap<Waiter, LookupId>,
}

impl Lookups {
    pub(crate) fn waiting(&self) -> usize {
        self.waits_for.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.questions.is_empty()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.late.next()
    }

    /// Has a name looked up. Those who avoid the same instances share one look-up.
    pub(crate) fn look_up(&mut self, out: &mut Outbox, service: &str, waiter: Waiter, mut avoid: Vec<NodeId>) {
        avoid.sort_unstable();
        avoid.dedup();
        let question = Question { service: service.to_string(), avoid: avoid.clone(), mover: None };
        if let Some(lookup) = self.wait(question, waiter) {
            out.ask(Action::Resolve { lookup, service: service.to_string(), avoid });
        }
    }

    /// Waits for the node that moves the service to say where it is; until then nobody else is asked.
    pub(crate) fn wait_for(&mut self, service: &str, mover: NodeId, waiter: Waiter, until: Time) {
        if let Some(id) = self.wait(Question::to_mover(service, mover), waiter) {
            self.late.set(id, until);
        }
    }

    /// Gives the number of the look-up, if nobody has asked before.
    fn wait(&mut self, question: Question, waiter: Waiter) -> Option<LookupId> {
        self.forget(waiter);
        let known = self.asked.get(&question).copied();
        let id = known.unwrap_or_else(|| {
            self.next += 1;
            let id = LookupId(self.next);
            self.asked.insert(question.clone(), id);
            self.questions.insert(id, question);
            id
        });
        self.waiters.insert((id, waiter));
        self.waits_for.insert(waiter, id);
        known.is_none().then_some(id)
    }

    /// It waits no more. What it asked may still be answered, for others.
    pub(crate) fn forget(&mut self, waiter: Waiter) {
        if let Some(id) = self.waits_for.remove(&waiter) {
            self.waiters.remove(&(id, waiter));
        }
    }

    /// An answer has come: who waits for it.
    pub(crate) fn answered(&mut self, id: LookupId) -> Option<Lookup> {
        let question = self.questions.remove(&id)?;
        self.asked.remove(&question);
        self.late.clear(&id);
        let of_it = (id, Waiter::FIRST)..(LookupId(id.0 + 1), Waiter::FIRST);
        let waiters: Vec<Waiter> = self.waiters.extract_if(of_it, |_| true).map(|(_, waiter)| waiter).collect();
        for waiter in &waiters {
            self.waits_for.remove(waiter);
        }
        Some(Lookup { question, waiters })
    }

    /// That node has moved it: who waits for that.
    pub(crate) fn moved(&mut self, service: &str, mover: NodeId) -> Option<Lookup> {
        let id = *self.asked.get(&Question::to_mover(service, mover))?;
        self.answered(id)
    }

    /// A mover that is gone does not say where to: others are asked.
    pub(crate) fn mover_lost(&mut self, out: &mut Outbox, node: NodeId) {
        let lost = self.asked.iter().filter(|(question, _)| question.mover == Some(node)).map(|(_, id)| *id);
        let lost: Vec<LookupId> = lost.collect();
        lost.into_iter().for_each(|id| self.ask_others(out, id));
    }

    pub(crate) fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(id) = self.late.take_due(now) {
            self.ask_others(out, id);
        }
    }

    fn ask_others(&mut self, out: &mut Outbox, id: LookupId) {
        let Some(Lookup { question, waiters }) = self.answered(id) else { return };
        waiters.into_iter().for_each(|waiter| self.look_up(out, &question.service, waiter, Vec::new()));
    }
}

impl Question {
    fn to_mover(service: &str, mover: NodeId) -> Self {
        Self { service: service.to_string(), avoid: Vec::new(), mover: Some(mover) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use alloc::sync::Arc;
    use catena_wire::NodeRef;

    use super::*;

    #[test]
    fn who_waits_no_more_takes_no_place_and_is_not_told() {
        let node = NodeRef { id: NodeId(1), name: "n".into(), address: None, site: None };
        let (mut lookups, mut out) = (Lookups::default(), Outbox::new(Arc::new(node)));
        let (gone, stays) = (Waiter::Call(1), Waiter::Chain(SessionId(1), 1));
        for waiter in [gone, stays] {
            lookups.look_up(&mut out, "service", waiter, Vec::new());
        }
        lookups.forget(gone);
        assert_eq!(lookups.waiting(), 1);
        let id = *lookups.questions.keys().next().unwrap();
        assert_eq!(lookups.answered(id).unwrap().waiters, [stays]);
        assert!(lookups.is_idle() && lookups.waiting() == 0 && lookups.waits_for.is_empty());
    }
}
