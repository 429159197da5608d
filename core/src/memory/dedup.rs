//! The dedup table: what this node did for each step, so that a repeated hop or call does not run twice (rpc-chains section 3.9).
//!
//! Two things are kept apart. A *record* says what became of a step: it is small, and kept for `step_record_ttl_us` of the node's time awake. Its *payload* is
//! what is needed to answer a repeat of the step: it is large, bounded by bytes, and dropped first. A hop or call that is sent again says how long ago it was
//! first sent. If it finds no record, and this node may have forgotten one since then, whether the step was done is unknown; it is never taken for new (RIFL,
//! SOSP 2015, section 3).

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Brought, ChainId, Encoded, Exception, LogLine, NodeId, NodeRef, StepKey, Value};

use super::{records::Records, rows::Rows};
use crate::{
    Policy, SessionId, Time,
    activation::Activation,
    collections::{AT_ONCE_MAX, Party},
};

#[derive(Clone, Debug)]
pub(crate) enum StepRecord {
    /// It is being done in this session, for the chain that `from` brought here.
    Running { from: Senders, session: SessionId },
    /// It is a call that a chain makes without moving; those in `reply_to` wait for its result.
    Calling { fingerprint: u64, by: Party, reply_to: Vec<(Arc<NodeRef>, u64)> },
    /// It is over here.
    Done(DoneStep),
}

/// Who sent a step here.
#[derive(Clone, Debug)]
pub(crate) struct Senders {
    /// The nodes that sent its chain: they may stop it, and ask where it is.
    pub(crate) nodes: Vec<NodeId>,
    /// The party whose share pays for the record.
    pub(crate) party: Party,
}

#[derive(Clone, Debug)]
pub(crate) struct DoneStep {
    pub(crate) fate: Fate,
    pub(crate) from: Senders,
    /// The nodes to which the chain went from here, or may have gone.
    pub(crate) to: Vec<Arc<NodeRef>>,
    at: Time,
    /// Bytes of its payload.
    bytes: usize,
}

/// What became of a step and, while there is room, its payload: what is needed to answer a repeat. Payloads that are large are boxed, since every record has
/// room for the largest variant.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// The chain or branch ended here. The payload is the end, as it was sent.
    Ended(Option<Box<Sent>>),
    /// The chain went on from here under this later step. The payload is the whole chain, and its branches if it split here to be merged elsewhere.
    Forwarded(u32, Option<(Box<Activation>, Vec<StepKey>)>),
    /// It was refused: nothing was done, or whether it was done is unknown. The payload is the refusal.
    Refused(Option<Box<Encoded>>),
    /// It was a call, with this fingerprint of target and parameters, which returned. The payload is its result, and what it brought.
    Returned(u64, Option<Box<(Result<Value, Exception>, Brought)>>),
}

/// A message as it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// The last step of the chain or branch.
    pub(crate) key: StepKey,
    pub(crate) to: Arc<NodeRef>,
    pub(crate) message: Encoded,
    pub(crate) via: Option<Arc<NodeRef>>,
}

/// How many may wait for the call of one step at one time: a chain is in few places.
pub(crate) const REPLY_TO_MAX: usize = 64;

impl StepRecord {
    pub(crate) fn came_from(&self, node: NodeId) -> bool {
        match self {
            Self::Running { from, .. } => from.nodes.contains(&node),
            Self::Calling { reply_to, .. } => reply_to.iter().any(|(to, _)| to.id == node),
            Self::Done(done) => done.from.nodes.contains(&node),
        }
    }

    const fn is_of_call(&self) -> bool {
        matches!(self, Self::Calling { .. } | Self::Done(DoneStep { fate: Fate::Returned(..), .. }))
    }

    pub(crate) fn senders(&self) -> Senders {
        match self {
            Self::Running { from, .. } => from.clone(),
            Self::Calling { reply_to, by, .. } => {
                Senders { nodes: reply_to.iter().map(|(node, _)| node.id).collect(), party: *by }
            }
            Self::Done(done) => done.from.clone(),
        }
    }

    /// The party whose share pays for the record.
    pub(crate) const fn party(&self) -> Party {
        match self {
            Self::Running { from: Senders { party, .. }, .. } | Self::Calling { by: party, .. } => *party,
            Self::Done(done) => done.from.party,
        }
    }

    pub(crate) const fn session(&self) -> Option<SessionId> {
        match self {
            Self::Running { session, .. } => Some(*session),
            _ => None,
        }
    }
}

impl Fate {
    pub(crate) fn returned(fingerprint: u64, result: Result<Value, Exception>, brought: Brought) -> Self {
        Self::Returned(fingerprint, Some(Box::new((result, brought))))
    }

    fn payload_bytes(&self) -> usize {
        match self {
            Self::Ended(Some(sent)) => sent.message.bytes(),
            Self::Refused(Some(message)) => message.bytes(),
            Self::Forwarded(_, Some((activation, _))) => activation.bytes(),
            Self::Returned(_, Some(returned)) => {
                let (result, brought) = &**returned;
                let lines = brought.console.iter().map(LogLine::kept_bytes).sum::<usize>();
                result.as_ref().map_or_else(Exception::kept_bytes, Value::len_bytes) + lines
            }
            Self::Ended(None) | Self::Refused(None) | Self::Forwarded(_, None) | Self::Returned(_, None) => 0,
        }
    }
}

impl DoneStep {
    /// False if it had been dropped before.
    fn drop_payload(&mut self, rows: &mut Rows) -> bool {
        let dropped = match &mut self.fate {
            Fate::Ended(sent) => sent.take().is_some(),
            Fate::Refused(message) => message.take().is_some(),
            Fate::Forwarded(_, chain) => chain.take().is_some(),
            Fate::Returned(_, returned) => returned.take().is_some(),
        };
        if dropped {
            rows.payload_dropped(self.from.party, self.bytes as u64);
        }
        dropped
    }
}

/// Nodes for which forgotten records are noted separately; all others share one note.
const FORGOTTEN_NODES_MAX: usize = 65_536;

/// For each node that brought records which were dropped before their time: when the youngest of these was made.
#[derive(Clone, Debug, Default)]
struct Forgotten {
    of: BTreeMap<NodeId, Time>,
    by_time: BTreeSet<(Time, NodeId)>,
    /// The same for all nodes that are not noted separately.
    others: Option<Time>,
}

impl Forgotten {
    fn of(&self, node: NodeId) -> Option<Time> {
        self.of.get(&node).copied().max(self.others)
    }

    fn note(&mut self, node: NodeId, at: Time) {
        let at = self.of.get(&node).copied().max(Some(at)).unwrap_or(at);
        if let Some(before) = self.of.insert(node, at) {
            self.by_time.remove(&(before, node));
        }
        self.by_time.insert((at, node));
        while self.of.len() > FORGOTTEN_NODES_MAX
            && let Some((at, node)) = self.by_time.pop_first()
        {
            self.of.remove(&node);
            self.others = self.others.max(Some(at));
        }
    }

    /// The outcome of a step that old is unknown in any case, so the note is no longer needed.
    fn expire(&mut self, awake: Time, ttl_us: u64) {
        for _ in 0..AT_ONCE_MAX {
            let Some((_, node)) = self.by_time.first().copied().filter(|(at, _)| awake.since(*at) >= ttl_us) else {
                break;
            };
            self.by_time.pop_first();
            self.of.remove(&node);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DedupTable {
    records: Records<StepRecord>,
    rows: Rows,
    forgotten: Forgotten,
}

impl DedupTable {
    pub(crate) fn get(&self, key: &StepKey) -> Option<&StepRecord> {
        self.records.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &StepKey) -> Option<&mut StepRecord> {
        self.records.get_mut(key)
    }

    pub(crate) fn of_chain(&self, chain: ChainId) -> impl Iterator<Item = (&StepKey, &StepRecord)> {
        self.records.of_chain(chain)
    }

    /// The chain's stay here in which this step was made: the step by which it arrived, and the record of that.
    pub(crate) fn stay_of(&self, key: &StepKey) -> Option<(&StepKey, &StepRecord)> {
        self.records.last_up_to(key, |record| !record.is_of_call())
    }

    pub(crate) const fn payload_bytes(&self) -> usize {
        self.rows.payload_bytes() as usize
    }

    /// Whether a step without a record, which `from` first sent `age_us` ago, may have been done here and forgotten.
    pub(crate) fn may_have_forgotten(&self, awake: Time, from: NodeId, age_us: u64, policy: &Policy) -> bool {
        // A message may have waited in a socket for as long as a silent link is kept.
        let age_us = if age_us == 0 { return false } else { age_us.saturating_add(policy.link_silence_us_max) };
        let forgotten = self.forgotten.of(from);
        age_us >= policy.step_record_ttl_us || forgotten.is_some_and(|at| awake.since(at) <= age_us)
    }

    pub(crate) fn begin(&mut self, key: StepKey, from: Senders, session: SessionId) {
        self.put(key, StepRecord::Running { from, session });
    }

    pub(crate) fn begin_call(&mut self, key: StepKey, fingerprint: u64, by: Party, to: (Arc<NodeRef>, u64)) {
        self.put(key, StepRecord::Calling { fingerprint, by, reply_to: alloc::vec![to] });
    }

    /// What was begun in one session goes on in `next`.
    pub(crate) fn run_on(&mut self, key: &StepKey, next: SessionId) {
        if let Some(StepRecord::Running { session, .. }) = self.records.get_mut(key) {
            *session = next;
        }
    }

    /// Forgets a step that is under way and came to nothing, so that it may be tried again.
    pub(crate) fn forget(&mut self, key: &StepKey) {
        if matches!(self.records.get(key), Some(StepRecord::Running { .. } | StepRecord::Calling { .. })) {
            self.records.remove(key);
        }
    }

    /// Remembers what became of a step that was begun here.
    pub(crate) fn finish(&mut self, awake: Time, key: &StepKey, fate: Fate, to: Vec<Arc<NodeRef>>, policy: &Policy) {
        let Some(from) = self.records.get(key).map(StepRecord::senders) else { return };
        self.remember(awake, key, fate, from, to, policy);
    }

    pub(crate) fn refuse(&mut self, awake: Time, key: &StepKey, from: Senders, refusal: Encoded, policy: &Policy) {
        let fate = Fate::Refused(Some(Box::new(refusal)));
        self.remember(awake, key, fate, from, Vec::new(), policy);
    }

    /// Remembers what became of a step, begun here or not.
    pub(crate) fn remember(
        &mut self,
        awake: Time,
        key: &StepKey,
        fate: Fate,
        from: Senders,
        to: Vec<Arc<NodeRef>>,
        policy: &Policy,
    ) {
        let (bytes, by) = (fate.payload_bytes(), from.party);
        while let Some((at, key)) = self.rows.pop_for(by, policy.step_records_max) {
            self.drop_record(&key, at, |done, forgotten| {
                done.from.nodes.iter().for_each(|node| forgotten.note(*node, at));
            });
        }
        while let Some((at, key)) = self.rows.pop_payload_for(by, bytes as u64, policy.step_payload_bytes_max) {
            self.drop_payload(&key, at);
        }
        let has_room = self.rows.has_room(bytes as u64, policy.step_payload_bytes_max);
        self.rows.push(awake, by, key.clone(), bytes as u64);
        self.put(key.clone(), StepRecord::Done(DoneStep { fate, from, to, at: awake, bytes }));
        if !has_room {
            self.drop_payload(key, awake);
        }
    }

    /// Whether a chain has a session here.
    pub(crate) fn runs(&self, chain: ChainId) -> bool {
        self.of_chain(chain).any(|(_, record)| record.session().is_some())
    }

    /// Drops the payloads of a chain's finished steps; that they were done stays known. Returns the nodes to which the chain went from them.
    pub(crate) fn release(&mut self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        let mut next = Vec::new();
        for record in self.records.of_chain_mut(chain) {
            if let StepRecord::Done(done) = record
                && done.drop_payload(&mut self.rows)
            {
                next.extend(done.to.iter().cloned());
            }
        }
        next
    }

    /// A step that was over goes on, in this session.
    pub(crate) fn reopen(&mut self, key: &StepKey, session: SessionId) {
        if let Some(StepRecord::Done(done)) = self.records.get(key) {
            self.put(key.clone(), StepRecord::Running { from: done.from.clone(), session });
        }
    }

    fn put(&mut self, key: StepKey, record: StepRecord) {
        if let Some(StepRecord::Done(mut before)) = self.records.insert(key, record) {
            before.drop_payload(&mut self.rows);
        }
    }

    fn drop_payload(&mut self, key: &StepKey, at: Time) {
        if let Some(StepRecord::Done(done)) = self.records.get_mut(key)
            && done.at == at
        {
            done.drop_payload(&mut self.rows);
        }
    }

    /// Drops the record that was made at `at`, if it has not been replaced since; calls `also` before.
    fn drop_record(&mut self, key: &StepKey, at: Time, also: impl FnOnce(&DoneStep, &mut Forgotten)) {
        if let Some(StepRecord::Done(done)) = self.records.get_mut(key)
            && done.at == at
        {
            done.drop_payload(&mut self.rows);
            also(done, &mut self.forgotten);
            self.records.remove(key);
        }
    }

    /// Drops records older than `step_record_ttl_us`: a repeat of so old a step is not taken for new, even without its record.
    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        for _ in 0..AT_ONCE_MAX {
            let Some((at, key)) = self.rows.pop_older(awake, policy.step_record_ttl_us) else { break };
            self.drop_record(&key, at, |_, _| ());
        }
        self.forgotten.expire(awake, policy.step_record_ttl_us);
    }
}

/// A fingerprint of a call's target and parameters, which distinguishes another call under the same step. Whoever forges one only gets an old answer of their
/// own chain, so it need not be a cryptographic one; it is made under the node's lock, so it takes eight bytes at a time.
pub(crate) fn fingerprint(service: &str, function: &str, params: &Value) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let parts = [service.as_bytes(), function.as_bytes(), &params.as_bytes()[..]];
    parts.into_iter().fold(0, |hash, part| {
        let (words, rest) = part.as_chunks();
        let hash = words.iter().fold(mix(hash, part.len() as u64), |hash, word| mix(hash, u64::from_le_bytes(*word)));
        rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
    })
}
