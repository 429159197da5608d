//! What comes after a step that was done again, or whose loss the function was told of and went on (rpc-chains section 3.9).
//!
//! Where that is declared to be harmless, a step that may have been done is done again when its node is lost. But from its first
//! time the chain may have gone on: each step after it may have been done too, and one that is not to be done twice must not be.
//! A node that has been there since before that, and is the only one that could have done it, knows: it would remember. Any
//! other refuses, and the outcome is unknown.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
};
use catena_wire::{Branch, ChainId, Exception, Fault, Redone, StepKey, names};

use crate::{Node, Policy, SessionId, Time, activation::Baggage, calls::Request, node::Served, steps::Done};

/// The step that was done again, and how long ago it went out for the first time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    key: StepKey,
    age_us: u64,
    /// When `age_us` was right.
    at: Time,
}

impl Mark {
    /// Few chains have one: it must not make all of them larger.
    pub(crate) fn from_wire(at: Time, redone: Redone) -> Box<Self> {
        Box::new(Self { key: redone.key, age_us: redone.age_us, at })
    }

    /// `hop_us`: what the way may take, which nobody measures.
    pub(crate) fn to_wire(&self, now: Time, hop_us: u64) -> Redone {
        Redone { key: self.key.clone(), age_us: self.age_us(now).saturating_add(hop_us) }
    }

    const fn age_us(&self, now: Time) -> u64 {
        self.age_us.saturating_add(now.since(self.at))
    }
}

/// Chains of which a marked one has been seen here lately: an unmarked one that comes after it is its first time, which was given up.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecondTimes {
    /// The step that was done again, by chain and branch.
    steps: BTreeMap<(ChainId, Branch), u32>,
    since: VecDeque<(Time, (ChainId, Branch))>,
}

impl SecondTimes {
    pub(crate) fn note(&mut self, now: Time, mark: &Mark, policy: &Policy) {
        let StepKey { chain, branch, step } = mark.key.clone();
        let known = self.steps.entry((chain, branch.clone())).or_insert_with(|| {
            self.since.push_back((now, (chain, branch)));
            step
        });
        *known = step.min(*known);
        self.evict(now, policy);
    }

    /// Branches of a marked chain are marked, so an unmarked one is of the first time too.
    fn overtook(&self, key: &StepKey) -> bool {
        let around = core::iter::successors(Some(key.branch.clone()), Branch::parent);
        around.into_iter().any(|branch| self.steps.get(&(key.chain, branch)).is_some_and(|step| *step < key.step))
    }

    pub(crate) fn evict(&mut self, now: Time, policy: &Policy) {
        while let Some((at, key)) = self.since.front() {
            if self.since.len() <= policy.cancelled_max && now.since(*at) < policy.step_cache_ttl_us {
                break;
            }
            self.steps.remove(key);
            self.since.pop_front();
        }
    }
}

impl Baggage {
    /// This step may have been done, and goes out once more.
    pub(crate) fn mark(&mut self, now: Time, key: &StepKey, first_sent_at: Time) -> &Mark {
        let before_us = self.redone.as_deref().map_or(0, |before| before.age_us(now));
        let age_us = before_us.max(now.since(first_sent_at));
        self.redone.insert(Box::new(Mark { key: key.clone(), age_us, at: now }))
    }
}

impl Node {
    /// A call made in place leaves nothing in the step cache: it must not have been made as a hop, or by a call, either.
    pub(crate) fn check_in_place(&self, now: Time, request: &Request) -> Result<(), Exception> {
        let Request { redone, key, service, function, .. } = request;
        match key.as_ref().filter(|_| redone.is_some()).and_then(|key| self.steps.get(key)) {
            Some(_) if !self.is_repeatable(service, function) => Err(self.perhaps_done(service, function)),
            _ => self.check_not_done(now, redone.as_deref(), key.as_ref(), service, function),
        }
    }

    /// This node begins now: it remembers nothing of what one before it did. Without this it has been there for ever.
    pub const fn set_born(&mut self, now: Time) {
        self.born = Some(now);
    }

    /// Some other node serves this too, or did.
    pub fn note_shared(&mut self, service: &str) {
        if self.services.contains_key(service) {
            self.shared.insert(String::from(service));
        }
    }

    /// Whether a step that this node does not remember has not been done, as far as a step before it was done again.
    ///
    /// # Errors
    /// `NodeLost`, unknown: it may have been.
    pub(crate) fn check_not_done(
        &self,
        now: Time,
        mark: Option<&Mark>,
        key: Option<&StepKey>,
        service: &str,
        function: &str,
    ) -> Result<(), Exception> {
        if key.is_some() && key == mark.map(|mark| &mark.key) {
            return Ok(());
        }
        let Some(Served { kinds, .. }) = self.services.get(service) else { return Ok(()) };
        let alone = !self.shared.contains(service);
        let known = match (mark, key) {
            _ if self.is_repeatable(service, function) => true,
            (None, Some(key)) if self.second_times.overtook(key) => false,
            (None, _) => true,
            (Some(mark), Some(key)) if self.has_been_here(key, mark) => false,
            _ if kinds.durable.iter().any(|durable| durable == function) => alone,
            (Some(mark), _) => alone && self.remembers_all_of(now, mark.age_us(now)),
        };
        if known || bug!(self.policy, RedoneRuns) {
            return Ok(());
        }
        Err(self.perhaps_done(service, function))
    }

    /// Calls in place leave nothing in the step cache: where the chain has been since its first time, this may have been one.
    fn has_been_here(&self, key: &StepKey, mark: &Mark) -> bool {
        let marked = |session: SessionId| self.activations.get(session).is_some_and(|a| a.baggage.redone.is_some());
        self.steps.of_chain(key.chain).any(|(known, done)| {
            // What is under way and marked is the second time itself.
            let second = matches!(done, Done::Running(session) if marked(*session));
            known != key && known.step >= mark.key.step && !second
        })
    }

    fn is_repeatable(&self, service: &str, function: &str) -> bool {
        let served = self.services.get(service);
        served.is_some_and(|served| served.kinds.repeatable.iter().any(|repeatable| repeatable == function))
    }

    fn perhaps_done(&self, service: &str, function: &str) -> Exception {
        let me = &self.me.name;
        let message = format!(
            "a step before was done again when its node was lost; whether {service}/{function} was done after its first time {me} does not know"
        );
        Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown()
    }

    fn remembers_all_of(&self, now: Time, age_us: u64) -> bool {
        let kept = age_us < self.policy.step_cache_ttl_us;
        let forgot = self.steps.forgot_at.is_some_and(|forgot_at| now.since(forgot_at) <= age_us);
        kept && !forgot && self.born.is_none_or(|born| now.since(born) >= age_us)
    }
}
