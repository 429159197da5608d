//! What others may do with segments of this node, and what is done with their requests.

#[cfg(feature = "seeded-bugs")]
use alloc::collections::BTreeMap;
use core::net::IpAddr;

use catena_wire::{At, NodeId, Order, Rights, SegmentMessage, SegmentRefusal};

use super::{
    exports::{ExportError, Exported, Exports, Notify, SegmentId},
    grants::{Grant, Grants},
    policy::SegmentPolicy,
    turns::{AllTurns, Now, refused},
};
use crate::{Time, collections::Parties};

/// What is to be done with a request.
#[derive(Debug)]
pub enum Todo<M> {
    /// Do this with the segment's bytes: a read, a write, a swap, or let the requester reach them without requests. The message no longer says what was asked
    /// for but what is decided: `notify` whether the owner is notified, `write` whether the requester may write and swap. The memory is the segment's at the
    /// time of the request: it must be held before the next request is decided.
    Do(SegmentMessage, M),
    /// Send this.
    Answer(SegmentMessage),
    /// Nothing for now.
    Nothing,
}

/// The segments of this node.
#[derive(Clone, Debug)]
pub struct Owner<M> {
    /// What is exported.
    pub exports: Exports<M>,
    policy: SegmentPolicy,
    parties: Parties,
    grants: Grants,
    turns: AllTurns,
    #[cfg(feature = "seeded-bugs")]
    approved: BTreeMap<(u64, u64), M>,
}

impl<M: Clone> Owner<M> {
    pub(super) fn new(policy: SegmentPolicy, last_generation: u64) -> Self {
        Self {
            exports: Exports::new(policy.clone(), last_generation),
            policy,
            parties: Parties::default(),
            grants: Grants::default(),
            turns: AllTurns::default(),
            #[cfg(feature = "seeded-bugs")]
            approved: BTreeMap::new(),
        }
    }

    /// Exports the registry in place of the previous one: everybody may read it.
    ///
    /// # Errors
    /// [`ExportError::Limit`]
    pub fn export_registry(&mut self, bytes: u64, memory: M) -> Result<SegmentId, ExportError> {
        self.grants.forget(0);
        self.exports.export_registry(bytes, memory)
    }

    /// Revokes a segment: from now on every request is refused. Returns its memory; `None` if it was revoked before.
    pub fn revoke(&mut self, id: SegmentId) -> Option<M> {
        let memory = self.exports.revoke(id)?;
        self.grants.forget(id.number);
        Some(memory)
    }

    /// Gives out a grant, under a number drawn at random.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`], [`SegmentRefusal::OutOfBounds`]; [`SegmentRefusal::Overloaded`]: too many grants are out.
    pub fn grant(&mut self, now: Time, id: SegmentId, drawn: u64, grant: Grant) -> Result<u64, SegmentRefusal> {
        let bytes = self.exports.bytes(id).ok_or(SegmentRefusal::Revoked)?;
        if grant.offset.checked_add(grant.bytes).is_none_or(|end| end > bytes) {
            return Err(SegmentRefusal::OutOfBounds(bytes));
        }
        let party = grant.to.map(|to| self.parties.of(to));
        self.grants.give(now, id.number, drawn, (grant, party), &self.policy)
    }

    /// Takes a grant back; returns whether it was still out.
    pub fn take_back(&mut self, grant: u64) -> bool {
        self.grants.take_back(grant)
    }

    /// From which address a node is linked from now on; `None`: it is a process of this machine, or not linked any more. See [`crate::Node::on_linked`].
    pub fn on_linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        self.parties.linked(node, address);
    }

    /// Decides a request that came by this link. When that is done, requests that were held may follow: see [`Owner::next`].
    pub fn on_request(&mut self, now: Time, link: u64, from: NodeId, message: SegmentMessage) -> Todo<M> {
        if bug!(self.policy, SegmentBug::WritesOvertake) && matches!(message, SegmentMessage::Write { .. }) {
            return self.decide(now, from, message);
        }
        #[cfg(feature = "seeded-bugs")]
        self.approve_early(link, &message);
        match self.turns.take(now, (link, self.parties.of(from)), message, &self.policy) {
            Now::Do(message) => self.decide(now, from, message),
            Now::Held => Todo::Nothing,
            Now::Full(message) => refused(&message, SegmentRefusal::Overloaded).map_or(Todo::Nothing, Todo::Answer),
        }
    }

    /// The next request of this link that was held until what is now done; to be called until there is none.
    pub fn next(&mut self, now: Time, link: u64, from: NodeId) -> Option<Todo<M>> {
        let message = match self.turns.next(link)? {
            Ok(message) => message,
            Err(turn) => return Some(Todo::Answer(SegmentMessage::NotWritten(turn, SegmentRefusal::Overloaded))),
        };
        #[cfg(feature = "seeded-bugs")]
        if let SegmentMessage::Write { turn, .. } = &message
            && let Some(memory) = self.approved.remove(&(link, *turn))
        {
            return Some(Todo::Do(message, memory));
        }
        Some(self.decide(now, from, message))
    }

    #[cfg(feature = "seeded-bugs")]
    fn approve_early(&mut self, link: u64, message: &SegmentMessage) {
        if bug!(self.policy, SegmentBug::RevokeOvertaken)
            && let SegmentMessage::Write { turn, at, .. } = message
            && let Ok(exported) = self.exports.find(at)
        {
            let memory = exported.memory.clone();
            self.approved.insert((link, *turn), memory);
        }
    }

    /// A link is gone, and what it left unfinished is not done.
    pub fn on_link_lost(&mut self, link: u64) {
        self.turns.lost(link);
    }

    /// Drops what has waited for too long for a write that does not come.
    pub fn on_timeout(&mut self, now: Time) {
        self.turns.on_timeout(now, self.policy.held_time_max_us);
    }

    fn decide(&mut self, now: Time, from: NodeId, mut message: SegmentMessage) -> Todo<M> {
        let answer = match self.allow(now, from, &mut message) {
            Ok(Some(memory)) => return Todo::Do(message, memory),
            Ok(None) => self.answer(from, &message),
            Err(why) => refused(&message, why),
        };
        answer.map_or(Todo::Nothing, Todo::Answer)
    }

    /// Returns the memory that a request is about, and puts into the request what is decided about it: see [`Todo::Do`]. `None`: it is about no memory.
    fn allow(&mut self, now: Time, from: NodeId, message: &mut SegmentMessage) -> Result<Option<M>, SegmentRefusal> {
        let exported = match message {
            SegmentMessage::Read { at, count, notify, order, .. } => {
                self.check_count(u64::from(*count), *order)?;
                let exported = self.allowed(now, from, at, u64::from(*count), Rights::READ)?;
                *notify = exported.how.on_read.tells(*notify);
                exported
            }
            SegmentMessage::Write { at, notify, order, data, .. } => {
                self.check_count(data.len() as u64, *order)?;
                let exported = self.allowed(now, from, at, data.len() as u64, Rights::WRITE)?;
                *notify = exported.how.on_write.tells(*notify);
                exported
            }
            SegmentMessage::Cas { at, width, notify, .. } => {
                if !matches!(width, 4 | 8) || !at.offset.is_multiple_of(u64::from(*width)) {
                    return Err(SegmentRefusal::Unaligned);
                }
                let exported = self.allowed(now, from, at, u64::from(*width), Rights::CAS)?;
                *notify = exported.how.on_write.tells(*notify);
                exported
            }
            // By a grant only a partner on this host reaches memory without requests.
            SegmentMessage::Reach { at: At { grant: Some(_), .. }, .. } => return Err(SegmentRefusal::NotShared),
            SegmentMessage::Reach { at, write, .. } => {
                let exported = self.shown(now, from, at, write)?;
                // The owner cannot be notified of an access without messages.
                if exported.how.on_read == Notify::Always {
                    return Err(SegmentRefusal::NotShared);
                }
                *write &= exported.how.on_write != Notify::Always;
                exported
            }
            SegmentMessage::Attach { at, write, .. } => self.shown(now, from, at, write)?,
            _ => return Ok(None),
        };
        Ok(Some(exported.memory.clone()))
    }

    /// The answer to a request that needs no memory; `None` if it gets none.
    fn answer(&self, from: NodeId, message: &SegmentMessage) -> Option<SegmentMessage> {
        Some(match message {
            SegmentMessage::Flush(id, _) => SegmentMessage::Flushed(*id),
            SegmentMessage::Import(id, name) => match self.exports.named(name, from) {
                Ok(entry) => SegmentMessage::Imported(*id, entry),
                Err(why) => SegmentMessage::Refused(*id, why),
            },
            SegmentMessage::List(id, first) => SegmentMessage::Listing(*id, self.exports.list(from, *first)),
            _ => return None,
        })
    }

    /// A segment that this importer may reach without requests, by its rights or by a grant of the whole segment. `write` stays only if the importer may do
    /// everything with the segment, since whoever reaches its memory for writing can do so.
    fn shown(&self, now: Time, from: NodeId, at: &At, write: &mut bool) -> Result<&Exported<M>, SegmentRefusal> {
        let exported = self.exports.find(at)?;
        let all = match at.grant {
            None => {
                let rights = exported.rights_of(from);
                let reads = rights.include(Rights::READ).then(|| rights.include(Rights::ALL));
                reads.ok_or_else(|| SegmentRefusal::NoRight(Rights::READ.without(rights)))?
            }
            Some(grant) => {
                let whole = self.grants.whole(now, grant, (from, at.number), exported.bytes);
                whole.ok_or(SegmentRefusal::GrantVoid)?
            }
        };
        *write &= all && !exported.inhibited;
        Ok(exported)
    }

    fn check_count(&self, count: u64, order: Order) -> Result<(), SegmentRefusal> {
        let most = u64::from(self.policy.request_bytes_max);
        if count > most {
            return Err(SegmentRefusal::TooLarge(most));
        }
        match order {
            Order::Bytes => Ok(()),
            Order::Little(width @ (2 | 4 | 8)) | Order::Big(width @ (2 | 4 | 8))
                if count.is_multiple_of(u64::from(width)) =>
            {
                Ok(())
            }
            _ => Err(SegmentRefusal::Unaligned),
        }
    }

    /// The segment at `at`, if this importer may do that with this range now. An access by a grant counts as a use.
    fn allowed(
        &mut self,
        now: Time,
        from: NodeId,
        at: &At,
        count: u64,
        need: Rights,
    ) -> Result<&Exported<M>, SegmentRefusal> {
        let exported = self.exports.find(at)?;
        match at.grant {
            None => {
                let rights = exported.rights_of(from);
                if !rights.include(need) {
                    return Err(SegmentRefusal::NoRight(need.without(rights)));
                }
            }
            Some(grant) => self.grants.allows(now, grant, (from, at.number), (at.offset, count), need)?,
        }
        if at.offset.checked_add(count).is_none_or(|end| end > exported.bytes) {
            return Err(SegmentRefusal::OutOfBounds(exported.bytes));
        }
        if exported.inhibited && need != Rights::READ {
            return Err(SegmentRefusal::WriteInhibited);
        }
        if let Some(grant) = at.grant
            && !bug!(self.policy, SegmentBug::GrantTwice)
        {
            self.grants.used(grant);
        }
        self.exports.find(at)
    }

    /// How many segments there are, their bytes, how many grants are out, and bytes of writes that wait for their turn.
    #[must_use]
    pub fn load(&self) -> (usize, u64, usize, u64) {
        let (segments, bytes) = self.exports.load();
        (segments, bytes, self.grants.out(), self.turns.held_bytes())
    }
}
