//! Grants: rights of one partner to a range, for a number of uses, until a time. Long messages, blobs and return buffers are made of them.

use alloc::collections::BTreeMap;

use catena_wire::{NodeId, Rights, SegmentRefusal};

use super::policy::SegmentPolicy;
use crate::{
    Time,
    collections::{Party, Shares},
};

/// What one partner may do with a range of a segment, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The partner; `None`: whoever knows the grant's number, for what travels further than its owner can foresee (a blob).
    pub to: Option<NodeId>,
    /// Which rights.
    pub rights: Rights,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How many requests may use it.
    pub uses: u32,
    /// When it expires.
    pub until: Time,
}

#[derive(Clone, Debug)]
struct Held {
    grant: Grant,
    /// The partner's.
    party: Option<Party>,
    number: u32,
}

/// All grants that are out, by their numbers, which are drawn at random. The number of a grant to one partner is no secret; that of a grant to whoever knows it
/// has 64 bits that nobody can guess.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    by_number: BTreeMap<u64, Held>,
    shares: Shares<Party>,
}

impl Grants {
    /// Keeps a grant under a number that no other grant has.
    pub(super) fn give(
        &mut self,
        now: Time,
        number: u32,
        as_number: u64,
        (grant, party): (Grant, Option<Party>),
        policy: &SegmentPolicy,
    ) -> Result<u64, SegmentRefusal> {
        let full = |all: &Self| {
            all.by_number.len() >= policy.grants_max
                || party.is_some_and(|party| all.shares.of(party) >= policy.grants_per_peer_max)
        };
        if full(self) {
            self.retain(|held| held.grant.until > now);
        }
        if full(self) || self.by_number.contains_key(&as_number) {
            return Err(SegmentRefusal::Overloaded);
        }
        if let Some(party) = party {
            self.shares.add(party);
        }
        self.by_number.insert(as_number, Held { grant, party, number });
        Ok(as_number)
    }

    /// Whether this grant allows an access; changes nothing.
    pub(super) fn allows(
        &self,
        now: Time,
        as_number: u64,
        (from, number): (NodeId, u32),
        (offset, count): (u64, u64),
        need: Rights,
    ) -> Result<(), SegmentRefusal> {
        let held = self.by_number.get(&as_number).ok_or(SegmentRefusal::GrantVoid)?;
        let grant = &held.grant;
        if grant.to.is_some_and(|to| to != from) || held.number != number || grant.until <= now {
            return Err(SegmentRefusal::GrantVoid);
        }
        if !grant.rights.include(need) {
            return Err(SegmentRefusal::NoRight(need.without(grant.rights)));
        }
        let end = grant.offset.saturating_add(grant.bytes);
        let within = offset >= grant.offset && offset.checked_add(count).is_some_and(|last| last <= end);
        if within { Ok(()) } else { Err(SegmentRefusal::OutOfBounds(grant.bytes)) }
    }

    /// Whether this partner was granted the whole segment, for any number of requests: then it may map the pages. Returns whether it may write.
    pub(super) fn whole(&self, now: Time, as_number: u64, (from, number): (NodeId, u32), bytes: u64) -> Option<bool> {
        let held = self.by_number.get(&as_number)?;
        let Grant { to, rights, offset, bytes: count, uses, until } = held.grant;
        // Not a grant to whoever knows its number: pages cannot be taken back.
        let his = to == Some(from) && held.number == number && until > now;
        let whole = (offset, count, uses) == (0, bytes, u32::MAX);
        (his && whole && rights.include(Rights::READ)).then(|| rights.include(Rights::ALL))
    }

    pub(super) fn used(&mut self, as_number: u64) {
        let Some(held) = self.by_number.get_mut(&as_number) else { return };
        held.grant.uses = held.grant.uses.saturating_sub(1);
        if held.grant.uses == 0 {
            self.take_back(as_number);
        }
    }

    /// Returns whether the grant was still out.
    pub(super) fn take_back(&mut self, as_number: u64) -> bool {
        let Some(held) = self.by_number.remove(&as_number) else { return false };
        if let Some(party) = held.party {
            self.shares.remove(party);
        }
        true
    }

    /// The segment is gone, and its grants with it.
    pub(super) fn forget(&mut self, number: u32) {
        if !self.by_number.is_empty() {
            self.retain(|held| held.number != number);
        }
    }

    pub(super) fn out(&self) -> usize {
        self.by_number.len()
    }

    fn retain(&mut self, keep: impl Fn(&Held) -> bool) {
        let gone = self.by_number.extract_if(.., |_, held| !keep(held));
        gone.filter_map(|(_, held)| held.party).for_each(|party| self.shares.remove(party));
    }
}
