//! What this node holds for its partners: buffers of long messages, and return buffers. Each is for one partner, within that partner's part, until its time;
//! a partner that never comes costs that, and nobody but those who write to him.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::{COMPLETIONS_MAX, NodeId};

use super::policy::MessagePolicy;
use crate::{Time, collections::Shares};

/// Partners that this node may owe a completion at one time: it is told at once beyond.
const OWED_PEERS_MAX: usize = 4_096;

/// What ends something that is held before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The partner says that it has read it, by whichever link.
    Read,
    /// The partner answers, or the link of this number is lost.
    Answered(u64),
    /// As `Read`, or the link of this number is lost: it is a message that goes beside that link.
    Taken(u64),
}

impl Until {
    /// The link with which it ends.
    const fn link(self) -> Option<u64> {
        match self {
            Self::Read => None,
            Self::Answered(link) | Self::Taken(link) => Some(link),
        }
    }

    /// Whether an answer is awaited.
    #[must_use]
    pub const fn is_question(self) -> bool {
        matches!(self, Self::Answered(_))
    }
}

/// For whom something is held, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The partner.
    pub to: NodeId,
    /// What ends it before its time.
    pub until: Until,
    /// Bytes held.
    pub bytes: u64,
    /// For so long, microseconds; no longer than `held_time_max_us`.
    pub lasts_us: u64,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The partner says that it has read the buffers, or will not.
    Taken,
    /// The partner answered.
    Answered,
    /// Its time is over.
    Late,
    /// The link with which it ends is gone.
    LinkLost,
    /// The partner cannot map it, and has looked at nothing.
    NotMapped,
    /// This node wants nothing of it any more.
    LetGo,
}

/// Something that is held no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended<H, W> {
    /// To be let go of.
    pub held: Option<H>,
    /// To be told.
    pub waiter: Option<W>,
    /// Why.
    pub outcome: Outcome,
}

#[derive(Debug)]
struct Held<H, W> {
    terms: Terms,
    until: Time,
    held: Option<H>,
    waiter: Option<W>,
}

#[derive(Debug)]
pub(super) struct AllHeld<H, W> {
    last_number: u64,
    by_number: BTreeMap<u64, Held<H, W>>,
    shares: Shares,
    owed: BTreeMap<NodeId, Vec<u64>>,
}

impl<H, W> Default for AllHeld<H, W> {
    fn default() -> Self {
        Self { last_number: 0, by_number: BTreeMap::new(), shares: Shares::default(), owed: BTreeMap::new() }
    }
}

impl<H, W> AllHeld<H, W> {
    pub(super) const fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn hold(
        &mut self,
        now: Time,
        terms: Terms,
        waiter: Option<W>,
        policy: &MessagePolicy,
    ) -> Result<u64, (&'static str, Option<W>)> {
        let Self { shares, .. } = self;
        let with = |bytes: u64| bytes.saturating_add(terms.bytes);
        let limit = match () {
            () if shares.all() >= policy.held_max => Some("held_max"),
            () if with(shares.all_bytes()) > policy.held_bytes_max => Some("held_bytes_max"),
            () if bug!(policy, MessageBug::OnePeerHoldsAll) => None,
            () if shares.of(terms.to) >= policy.held_per_peer_max => Some("held_per_peer_max"),
            () if with(shares.bytes_of(terms.to)) > policy.held_bytes_per_peer_max => Some("held_bytes_per_peer_max"),
            () => None,
        };
        if let Some(limit) = limit {
            return Err((limit, waiter));
        }
        shares.add_sized(terms.to, terms.bytes);
        let until = now.after(terms.lasts_us.min(policy.held_time_max_us));
        let number = self.number();
        self.by_number.insert(number, Held { terms, until, held: None, waiter });
        Ok(number)
    }

    pub(super) fn attach(&mut self, number: u64, held: H) -> Option<H> {
        match self.by_number.get_mut(&number) {
            Some(place) => place.held.replace(held),
            None => Some(held),
        }
    }

    /// A partner has read it, or will not. What an answer is awaited for is held until that comes.
    pub(super) fn taken(&mut self, from: NodeId, number: u64, policy: &MessagePolicy) -> Option<Ended<H, W>> {
        let held = self.by_number.get(&number)?;
        let his = held.terms.to == from || bug!(policy, MessageBug::StrangersTake);
        if his && !held.terms.until.is_question() { self.end(number, Outcome::Taken) } else { None }
    }

    /// A partner cannot map what went to it beside this link.
    pub(super) fn not_mapped(
        &mut self,
        from: NodeId,
        link: u64,
        number: u64,
        policy: &MessagePolicy,
    ) -> Option<Ended<H, W>> {
        let terms = self.by_number.get(&number)?.terms;
        let his = terms.to == from || bug!(policy, MessageBug::StrangersSendBack);
        if his && terms.until == Until::Taken(link) { self.end(number, Outcome::NotMapped) } else { None }
    }

    /// Whether this is a message that goes beside a link.
    pub(super) fn is_carried(&self, number: u64) -> bool {
        self.by_number.get(&number).is_some_and(|held| matches!(held.terms.until, Until::Taken(_)))
    }

    pub(super) fn answered(&mut self, from: NodeId, number: u64, policy: &MessagePolicy) -> Option<Ended<H, W>> {
        let held = self.by_number.get(&number)?;
        let his = held.terms.to == from || bug!(policy, MessageBug::StrangersAnswer);
        if his && held.terms.until.is_question() { self.end(number, Outcome::Answered) } else { None }
    }

    pub(super) fn let_go(&mut self, number: u64) -> Option<Ended<H, W>> {
        self.end(number, Outcome::LetGo)
    }

    pub(super) fn on_timeout(&mut self, now: Time, policy: &MessagePolicy) -> Vec<Ended<H, W>> {
        if bug!(policy, MessageBug::HeldForEver) {
            return Vec::new();
        }
        self.end_all(|held| held.until <= now, Outcome::Late)
    }

    pub(super) fn on_link_lost(&mut self, link: u64) -> Vec<Ended<H, W>> {
        self.end_all(|held| held.terms.until.link() == Some(link), Outcome::LinkLost)
    }

    fn end_all(&mut self, which: impl Fn(&Held<H, W>) -> bool, outcome: Outcome) -> Vec<Ended<H, W>> {
        let over = self.by_number.iter().filter(|(_, held)| which(held)).map(|(number, _)| *number);
        let over: Vec<u64> = over.collect();
        over.into_iter().filter_map(|number| self.end(number, outcome)).collect()
    }

    fn end(&mut self, number: u64, outcome: Outcome) -> Option<Ended<H, W>> {
        let Held { terms, held, waiter, .. } = self.by_number.remove(&number)?;
        self.shares.remove_sized(terms.to, terms.bytes);
        Some(Ended { held, waiter, outcome })
    }

    /// Gives what is to be told now.
    pub(super) fn owe(&mut self, to: NodeId, number: u64) -> Vec<u64> {
        if self.owed.len() >= OWED_PEERS_MAX && !self.owed.contains_key(&to) {
            return alloc::vec![number];
        }
        let owed = self.owed.entry(to).or_default();
        owed.push(number);
        if owed.len() < COMPLETIONS_MAX { Vec::new() } else { self.owed(to) }
    }

    pub(super) fn owed(&mut self, to: NodeId) -> Vec<u64> {
        // No look-up where nothing is owed, which is the rule.
        if self.owed.is_empty() { Vec::new() } else { self.owed.remove(&to).unwrap_or_default() }
    }

    pub(super) const fn count(&self) -> usize {
        self.shares.all()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.shares.all_bytes()
    }
}
