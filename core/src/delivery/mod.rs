//! Getting a step done once at another node. Knowledge of it only rises: from *nothing was done* to *it may have been done* to *done*.
//!
//! Hops and keyed calls are delivered alike: they are sent again to the same run of the same node, which remembers the step, and then to another instance of
//! the service, if nothing was done at the first or if a repeat is harmless. Ends, intermediate answers and cancellations have only one receiver each,
//! and are kept until it has them ([`Outgoing`]).

mod outgoing;

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use catena_wire::{Exception, Fault, NodeId, NodeRef, names};

use crate::{Policy, RetryScope, Time, Undelivered};
pub(crate) use outgoing::{Outgoing, Parcel};

/// What is known of whether the node that is being asked has done the step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Knowledge {
    NothingDone,
    MayBeDone,
    /// The node said so, by accepting the hop.
    Done,
}

/// One hop or call, on its way to one instance of a service after the other.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    to: Arc<NodeRef>,
    scope: RetryScope,
    /// Sendings to this instance, and how many of them never left this node.
    attempts: u8,
    unsent: u8,
    /// What is known of this instance.
    knowledge: Knowledge,
    first_sent_at: Option<Time>,
    /// Instances that were asked before.
    excluded: Vec<Arc<NodeRef>>,
    /// The step may have been done by the node of this name: no other may do it.
    bound_to: Option<String>,
    /// How often a node said that the service is elsewhere.
    moves: u16,
    /// The error of earlier instances: that one of them may have done it is not forgotten when a later one did nothing.
    pending_error: Option<Box<Exception>>,
}

/// What to do next about a hop or call that did not get through.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send it again to the same run of the same node, which remembers the step.
    SendAgain,
    /// Look for another instance.
    Seek,
    GiveUp(Exception),
}

impl Delivery {
    pub(crate) const fn new(to: Arc<NodeRef>, scope: RetryScope) -> Self {
        Self {
            to,
            scope,
            attempts: 0,
            unsent: 0,
            knowledge: Knowledge::NothingDone,
            first_sent_at: None,
            excluded: Vec::new(),
            moves: 0,
            bound_to: None,
            pending_error: None,
        }
    }

    pub(crate) const fn to(&self) -> &Arc<NodeRef> {
        &self.to
    }

    pub(crate) const fn attempts(&self) -> u8 {
        self.attempts
    }

    /// It is sent now. Returns its age.
    pub(crate) fn send(&mut self, now: Time) -> u64 {
        self.attempts = self.attempts.saturating_add(1);
        self.first_sent_at.get_or_insert(now);
        self.age_us(now)
    }

    /// How long ago it was first sent, microseconds; 0 only if it is sent for the first time.
    pub(crate) fn age_us(&self, now: Time) -> u64 {
        self.first_sent_at.map_or(0, |at| now.since(at).max(u64::from(self.attempts > 1)))
    }

    /// All nodes that may have it.
    pub(crate) fn nodes(&self) -> Vec<Arc<NodeRef>> {
        self.excluded.iter().chain([&self.to]).cloned().collect()
    }

    pub(crate) fn excluded(&self) -> Vec<NodeId> {
        self.excluded.iter().map(|node| node.id).collect()
    }

    /// Whether an instance before this one may have done it.
    pub(crate) fn may_be_done_before(&self) -> bool {
        self.pending_error.as_ref().is_some_and(|why| why.unknown)
    }

    /// Whether any instance may have done it.
    pub(crate) fn may_be_done(&self) -> bool {
        self.knowledge > Knowledge::NothingDone || self.may_be_done_before()
    }

    /// Whether this node may be asked.
    pub(crate) fn allows(&self, node: &NodeRef) -> bool {
        let bound_elsewhere = self.bound_to.as_ref().is_some_and(|name| *name != node.name);
        !bound_elsewhere && self.excluded.iter().all(|excluded| excluded.id != node.id)
    }

    /// The node has accepted it. From now on a failed dial no longer means that nothing was done.
    pub(crate) const fn taken(&mut self) {
        self.knowledge = Knowledge::Done;
        (self.attempts, self.unsent) = (0, 0);
    }

    /// Whether this node accepted it before; if so, sending it there again is a repeat.
    pub(crate) const fn was_taken(&self) -> bool {
        matches!(self.knowledge, Knowledge::Done)
    }

    /// Another instance is asked from now on.
    pub(crate) fn redirect(&mut self, to: Arc<NodeRef>, scope: RetryScope) {
        (self.to, self.attempts, self.unsent, self.scope) = (to, 0, 0, scope);
        self.knowledge = Knowledge::NothingDone;
    }

    /// A sending to this instance never left this node.
    pub(crate) const fn not_sent(&mut self) {
        self.unsent = self.unsent.saturating_add(1);
    }

    /// The node does not serve it, or no longer, and did nothing, whatever it was sent. The node is asked again later only if no copy can still be on its way
    /// there, since that copy would be done as well. `renumbered`: the hop continues as another step, of which there is no copy yet.
    ///
    /// # Errors
    /// Why it is given up. Without an error, the service is to be looked for.
    pub(crate) fn elsewhere(&mut self, service: &str, renumbered: bool, policy: &Policy) -> Result<(), Exception> {
        if self.knowledge == Knowledge::Done {
            return Err(self.conclude(lost(&self.to.name)));
        }
        self.knowledge = Knowledge::NothingDone;
        let only_copy = self.attempts <= 1 && self.excluded.is_empty();
        if only_copy || renumbered {
            // Its age counts from the next sending, as if that were the first.
            self.first_sent_at = None;
        } else {
            self.excluded.push(self.to.clone());
        }
        self.moves += 1;
        if self.moves > u16::from(policy.moves_followed_max) {
            let message =
                format!("{service} moved {} times while it was called; nothing was done; run again", self.moves);
            return Err(self.conclude(Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)));
        }
        Ok(())
    }

    /// With all that it carries it is too large for its link: this sending never left. The error to report.
    pub(crate) fn too_large(&mut self, bytes: u64, bytes_max: u64) -> Exception {
        self.not_sent();
        let sent_before = match self.knowledge {
            Knowledge::NothingDone => false,
            Knowledge::MayBeDone => self.unsent < self.attempts,
            Knowledge::Done => true,
        };
        let done =
            if sent_before { "it was sent before, and whether it took effect is unknown" } else { "nothing was done" };
        let message = format!(
            "the call has {bytes} bytes with all that it carries, where a message may have {bytes_max}; {done}; carry less, or call in parts"
        );
        let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message);
        self.conclude(if sent_before { why.outcome_unknown() } else { why })
    }

    /// It did not get through. `remembered`: the node recognizes a repeat.
    pub(crate) fn failed(&mut self, how: Undelivered, remembered: bool, policy: &Policy) -> Next {
        if how == Undelivered::Unreachable {
            self.not_sent();
        }
        // It may have been sent again meanwhile, since nothing was heard: that sending has not left either.
        let never_sent = how == Undelivered::Unreachable && self.unsent >= self.attempts;
        if never_sent && self.knowledge != Knowledge::Done {
            self.knowledge = Knowledge::NothingDone;
            return self.seek(unreachable(&self.to.name), policy);
        }
        self.knowledge = self.knowledge.max(Knowledge::MayBeDone);
        if how == Undelivered::Lost && remembered && self.attempts < policy.hop_attempts_max {
            return Next::SendAgain;
        }
        let why = Exception { unknown: !bug!(policy, LossDenied), ..lost(&self.to.name) };
        match self.scope {
            RetryScope::SameNode if bug!(policy, DurableElsewhere) => {}
            RetryScope::Nowhere => return Next::GiveUp(self.conclude(why)),
            RetryScope::SameNode => self.bound_to = Some(self.to.name.clone()),
            RetryScope::Anywhere => {}
        }
        self.seek(why, policy)
    }

    fn seek(&mut self, why: Exception, policy: &Policy) -> Next {
        self.excluded.push(self.to.clone());
        let why = self.conclude(why);
        if self.excluded.len() >= policy.instances_tried_max {
            return Next::GiveUp(why);
        }
        if self.pending_error.is_none() || !bug!(policy, HarmlessErrorKept) {
            self.pending_error = Some(Box::new(why));
        }
        Next::Seek
    }

    /// The error to report, given the last one: the worst that is known of any instance counts.
    pub(crate) fn conclude(&self, why: Exception) -> Exception {
        let pending = self.pending_error.as_ref().filter(|pending| pending.unknown && !why.unknown);
        match pending {
            // A service's own exception says more than the loss before it.
            Some(_) if why.fault == Fault::Service => why.outcome_unknown(),
            Some(pending) => (**pending).clone(),
            None if self.knowledge == Knowledge::Done => why.outcome_unknown(),
            None => why,
        }
    }

    /// The error to report when no other instance was found.
    pub(crate) fn exhausted(&self, why: &Exception) -> Exception {
        self.pending_error.as_deref().cloned().unwrap_or_else(|| self.conclude(why.clone()))
    }
}

pub(crate) fn unreachable(host: &str) -> Exception {
    let message = format!("{host} cannot be reached; nothing was done there; check that it is up, then run again");
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)
}

pub(crate) fn lost(host: &str) -> Exception {
    let message = format!("{host} was lost after the call went out; whether it took effect there is unknown");
    Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64) -> Arc<NodeRef> {
        Arc::new(NodeRef { id: NodeId(id), name: format!("n{id}"), address: None, site: None })
    }

    #[test]
    fn that_it_may_have_been_done_outlasts_every_harmless_error() {
        let policy = Policy { hop_attempts_max: 1, ..Policy::default() };
        let mut delivery = Delivery::new(node(1), RetryScope::Anywhere);
        delivery.send(Time::default());
        assert!(matches!(delivery.failed(Undelivered::Unreachable, true, &policy), Next::Seek));
        assert!(!delivery.may_be_done());
        delivery.redirect(node(2), RetryScope::Anywhere);
        delivery.send(Time::default());
        assert!(matches!(delivery.failed(Undelivered::Lost, true, &policy), Next::Seek));
        delivery.redirect(node(3), RetryScope::Anywhere);
        let harmless = Exception::new(names::OVERLOADED, Fault::Node, "");
        assert!(delivery.may_be_done() && delivery.conclude(harmless.clone()).unknown);
        assert_eq!(delivery.exhausted(&harmless).name, names::NODE_LOST);
    }

    #[test]
    fn a_repetition_that_is_too_large_does_not_undo_the_sending_before_it() {
        let mut delivery = Delivery::new(node(1), RetryScope::Nowhere);
        delivery.send(Time::default());
        let why = delivery.too_large(5, 4);
        assert!(!why.unknown && why.message.contains("nothing was done") && !delivery.may_be_done(), "{why}");
        delivery.redirect(node(1), RetryScope::Nowhere);
        delivery.send(Time::default());
        assert!(matches!(delivery.failed(Undelivered::Lost, true, &Policy::default()), Next::SendAgain));
        delivery.send(Time::default());
        let why = delivery.too_large(5, 4);
        assert!(why.unknown && !why.message.contains("nothing was done") && delivery.may_be_done(), "{why}");
        delivery.taken();
        delivery.send(Time::default());
        let why = delivery.too_large(5, 4);
        assert!(why.unknown && !why.message.contains("nothing was done"), "{why}");
    }

    #[test]
    fn a_node_that_took_it_once_is_not_said_to_have_done_nothing() {
        let mut delivery = Delivery::new(node(1), RetryScope::Nowhere);
        delivery.send(Time::default());
        delivery.taken();
        delivery.send(Time::default());
        let next = delivery.failed(Undelivered::Unreachable, true, &Policy::default());
        assert!(matches!(next, Next::GiveUp(why) if why.unknown));
    }
}
