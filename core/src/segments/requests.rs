//! Requests that wait for an answer, each until its deadline.

use alloc::{collections::BTreeMap, vec::Vec};

use catena_wire::{NodeId, SegmentMessage, SegmentRefusal};

use super::{imports::ImportId, policy::SegmentPolicy};
use crate::Time;

/// Deadlines are checked no more often than this, microseconds.
const SWEEP_US: u64 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read(u32),
    Cas,
    /// Answered after this many writes of its link.
    Flush(ImportId, u64),
    /// The same, to make room for more writes.
    Room(u64),
    Import,
    Attach,
    Reach,
    List,
}

#[derive(Clone, Debug)]
pub(super) struct Request<W> {
    /// The owner that was asked, and the link.
    pub(super) by: (NodeId, u64),
    pub(super) kind: Kind,
    /// `None` if nobody waits for the answer.
    pub(super) waiter: Option<W>,
    deadline: Time,
}

/// A request to be sent over the link for which it was made, since answers and turns belong to that link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The request's number, by which it can be given up.
    pub id: u64,
    /// The message.
    pub message: SegmentMessage,
}

#[derive(Clone, Debug)]
pub(super) struct Requests<W> {
    requests_max: usize,
    timeout_us: u64,
    under_way: BTreeMap<u64, Request<W>>,
    /// The next request's number. None is used twice, so that a late answer finds nothing.
    next: u64,
    /// No deadline is earlier than this.
    sweep_at: Option<Time>,
}

impl<W> Requests<W> {
    pub(super) const fn new(policy: &SegmentPolicy) -> Self {
        let (requests_max, timeout_us) = (policy.requests_max, policy.request_timeout_us);
        Self { requests_max, timeout_us, under_way: BTreeMap::new(), next: 0, sweep_at: None }
    }

    pub(super) fn ask(
        &mut self,
        now: Time,
        by: (NodeId, u64),
        kind: Kind,
        waiter: Option<W>,
        message: impl FnOnce(u64) -> SegmentMessage,
    ) -> Result<Asked, SegmentRefusal> {
        if self.len() >= self.requests_max {
            return Err(SegmentRefusal::Overloaded);
        }
        let deadline = now.after(self.timeout_us);
        let id = self.next;
        self.next += 1;
        self.under_way.insert(id, Request { by, kind, waiter, deadline });
        // All requests have the same time, so the first deadline stays the earliest.
        self.sweep_at.get_or_insert(deadline);
        Ok(Asked { id, message: message(id) })
    }

    /// A request was answered, if it was by the owner that was asked and over the same link.
    pub(super) fn answered(&mut self, by: (NodeId, u64), id: u64) -> Option<Request<W>> {
        self.under_way.get(&id).filter(|request| request.by == by)?;
        self.under_way.remove(&id)
    }

    pub(super) fn give_up(&mut self, id: u64) {
        self.under_way.remove(&id);
    }

    /// Removes what was asked over a lost link: it is not answered any more.
    pub(super) fn on_link_lost(&mut self, link: u64) -> Vec<Request<W>> {
        self.end(|request| request.by.1 == link)
    }

    /// Removes and returns the requests that were not answered in time.
    pub(super) fn on_timeout(&mut self, now: Time) -> Vec<Request<W>> {
        if self.sweep_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let late = self.end(|request| request.deadline <= now);
        let next = self.under_way.values().map(|request| request.deadline).min();
        self.sweep_at = next.map(|at| at.max(now.after(SWEEP_US)));
        late
    }

    pub(super) const fn next_timeout(&self) -> Option<Time> {
        self.sweep_at
    }

    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    fn end(&mut self, which: impl Fn(&Request<W>) -> bool) -> Vec<Request<W>> {
        self.under_way.extract_if(.., |_, request| which(request)).map(|(_, request)| request).collect()
    }
}
