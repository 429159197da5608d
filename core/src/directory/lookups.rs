//! Names being looked up, and what waits for them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};
use core::ops::Range;

use catena_wire::NodeId;

use crate::{
    Action, LookupId, SessionId, Time,
    collections::{AT_ONCE_MAX, Timers},
    outbox::Outbox,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Waiter {
    /// A plain call, by its number.
    Call(u64),
    /// A chain that is to go to the service, from this step.
    Chain(SessionId, u32),
}

impl Waiter {
    /// Orders before every other waiter.
    const FIRST: Self = Self::Call(0);
}

/// What is looked up: waiters with the same question share one look-up. Ordered by the mover, so that what waits for one node is found together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Question {
    /// The node that is moving the service, and will say where to: no other is asked until it is late or gone.
    mover: Option<NodeId>,
    pub(crate) service: String,
    /// Instances that were asked before: the answer is useful only to those who have asked the same ones.
    pub(crate) avoid: Vec<NodeId>,
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
    /// Who waits for which look-up, and the same by waiter.
    waiters: BTreeSet<(LookupId, Waiter)>,
    waits_for: BTreeMap<Waiter, LookupId>,
}

impl Lookups {
    pub(crate) fn waiting(&self) -> usize {
        self.waits_for.len()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.late.next()
    }

    /// Has a name looked up. Waiters that avoid the same instances share one look-up.
    pub(crate) fn look_up(&mut self, out: &mut Outbox, service: &str, waiter: Waiter, mut avoid: Vec<NodeId>) {
        avoid.sort_unstable();
        avoid.dedup();
        let question = Question { service: service.to_string(), avoid: avoid.clone(), mover: None };
        if let Some(lookup) = self.wait(out, question, waiter) {
            out.ask(Action::Resolve { lookup, service: service.to_string(), avoid });
        }
    }

    /// Waits for the node that moves the service to say where it is; until then nobody else is asked.
    pub(crate) fn wait_for(&mut self, out: &mut Outbox, service: &str, mover: NodeId, waiter: Waiter, until: Time) {
        if let Some(id) = self.wait(out, Question::to_mover(service, mover), waiter) {
            self.late.set(id, until);
        }
    }

    /// Adds a waiter. Returns the number of the look-up if it is a new one.
    fn wait(&mut self, out: &mut Outbox, question: Question, waiter: Waiter) -> Option<LookupId> {
        self.forget(out, waiter);
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

    /// This waiter waits no more. A look-up that nobody waits for is abandoned, so that there are never more look-ups than waiters.
    pub(crate) fn forget(&mut self, out: &mut Outbox, waiter: Waiter) {
        let Some(id) = self.waits_for.remove(&waiter) else { return };
        self.waiters.remove(&(id, waiter));
        if self.waiters.range(waiters_of(id)).next().is_none() {
            let asked = self.answered(id).is_some_and(|lookup| lookup.question.mover.is_none());
            if asked {
                out.ask(Action::AbandonLookup(id));
            }
        }
    }

    /// An answer has come. Returns who waits for it.
    pub(crate) fn answered(&mut self, id: LookupId) -> Option<Lookup> {
        let question = self.questions.remove(&id)?;
        self.asked.remove(&question);
        self.late.clear(&id);
        let waiters: Vec<Waiter> =
            self.waiters.extract_if(waiters_of(id), |_| true).map(|(_, waiter)| waiter).collect();
        for waiter in &waiters {
            self.waits_for.remove(waiter);
        }
        Some(Lookup { question, waiters })
    }

    /// The node that was moving the service has moved it. Returns who waits for that.
    pub(crate) fn moved(&mut self, service: &str, mover: NodeId) -> Option<Lookup> {
        let id = *self.asked.get(&Question::to_mover(service, mover))?;
        self.answered(id)
    }

    /// A node that was moving services is gone, and will not say where to: others are asked.
    pub(crate) fn mover_lost(&mut self, out: &mut Outbox, node: NodeId) {
        let of_it = self.asked.range(Question::to_mover("", node)..);
        let lost: Vec<LookupId> =
            of_it.take_while(|(question, _)| question.mover == Some(node)).map(|(_, id)| *id).collect();
        lost.into_iter().for_each(|id| self.ask_others(out, id));
    }

    pub(crate) fn on_timeout(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..AT_ONCE_MAX {
            let Some(id) = self.late.take_due(now) else { break };
            self.ask_others(out, id);
        }
    }

    fn ask_others(&mut self, out: &mut Outbox, id: LookupId) {
        let Some(Lookup { question, waiters }) = self.answered(id) else { return };
        waiters.into_iter().for_each(|waiter| self.look_up(out, &question.service, waiter, Vec::new()));
    }
}

const fn waiters_of(id: LookupId) -> Range<(LookupId, Waiter)> {
    (id, Waiter::FIRST)..(LookupId(id.0 + 1), Waiter::FIRST)
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
        lookups.forget(&mut out, gone);
        assert_eq!(lookups.waiting(), 1);
        let id = *lookups.questions.keys().next().unwrap();
        assert_eq!(lookups.answered(id).unwrap().waiters, [stays]);
        assert!(lookups.questions.is_empty() && lookups.waiting() == 0 && lookups.waits_for.is_empty());
    }

    #[test]
    fn a_lookup_that_nobody_waits_for_is_abandoned() {
        let node = NodeRef { id: NodeId(1), name: "n".into(), address: None, site: None };
        let (mut lookups, mut out) = (Lookups::default(), Outbox::new(Arc::new(node)));
        for number in 1..=3 {
            lookups.look_up(&mut out, "service", Waiter::Call(number), alloc::vec![NodeId(number)]);
            lookups.forget(&mut out, Waiter::Call(number));
        }
        assert!(lookups.questions.is_empty() && lookups.asked.is_empty());
        let abandoned = core::iter::from_fn(|| out.poll_action()).filter_map(|action| match action {
            Action::AbandonLookup(id) => Some(id.0),
            _ => None,
        });
        assert_eq!(abandoned.collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn others_are_asked_for_what_a_mover_that_is_gone_was_moving_and_for_nothing_else() {
        let node = NodeRef { id: NodeId(1), name: "n".into(), address: None, site: None };
        let (mut lookups, mut out) = (Lookups::default(), Outbox::new(Arc::new(node)));
        let moving = [(8, "before"), (9, ""), (9, "there"), (10, "after")];
        for (number, (mover, service)) in (1..).zip(moving) {
            lookups.wait_for(&mut out, service, NodeId(mover), Waiter::Call(number), Time::from_us(1));
        }
        lookups.look_up(&mut out, "asked", Waiter::Call(5), Vec::new());
        lookups.mover_lost(&mut out, NodeId(9));
        let asked = core::iter::from_fn(|| out.poll_action()).filter_map(|action| match action {
            Action::Resolve { service, .. } => Some(service),
            _ => None,
        });
        assert_eq!(asked.collect::<Vec<_>>(), ["asked", "", "there"]);
        assert_eq!(lookups.waiting(), 5);
    }
}
