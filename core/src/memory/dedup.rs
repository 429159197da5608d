//! The dedup table: what this node did for each step, so that a repeated hop or call does not run twice (rpc-chains section 3.9).
//!
//! Two things are kept apart. A *record* says what became of a step: it is small, and kept for `step_record_ttl_us` of the node's time awake.
//! Its *payload* is what is needed to answer the step once more: it is large, bounded by bytes, and goes first. A hop or call that
//! is sent again says how long ago it first went out. If it finds no record, and this node may have forgotten one in the
//! meantime, then whether the step was done is unknown; it is never taken for new (RIFL, SOSP 2015, section 3).

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Brought, ChainId, Encoded, Exception, NodeId, NodeRef, StepKey, Value};

use super::{records::Records, rows::Rows};
use crate::{Policy, SessionId, Time, activation::Activation, collections::Party};

#[derive(Clone, Debug)]
pub(crate) enum StepRecord {
    /// It is being done, in this session, for the chain that this node handed over.
    Running { from: Bringers, session: SessionId },
    /// It is a call that a chain makes from where it is; these ask for its result.
    Calling { fingerprint: u64, by: Party, reply_to: Vec<(Arc<NodeRef>, u64)> },
    /// It is over here.
    Done(DoneStep),
}

/// Who brought a step here.
#[derive(Clone, Debug)]
pub(crate) struct Bringers {
    /// The nodes by which its chain came: they may stop it, and ask where it is.
    pub(crate) nodes: Vec<NodeId>,
    /// Of whose share the record takes.
    pub(crate) party: Party,
}

#[derive(Clone, Debug)]
pub(crate) struct DoneStep {
    pub(crate) fate: Fate,
    pub(crate) from: Bringers,
    /// The nodes to which it went from here, or may have gone.
    pub(crate) to: Vec<Arc<NodeRef>>,
    at: Time,
    /// Of its payload.
    bytes: usize,
}

/// What became of a step; and its payload, which is what it takes to answer it once more, while there is room. Every record has room for one: what
/// is large is apart.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// The chain or branch ended here: the end, as it went out.
    Ended(Option<Box<Sent>>),
    /// The chain went on from here under this later step: the chain, whole; and its branches, if it split here to be merged elsewhere.
    Forwarded(u32, Option<(Box<Activation>, Vec<StepKey>)>),
    /// It was not taken over: nothing was done, or what was done is not known.
    Refused(Option<Box<Encoded>>),
    /// It was a call, of this target and these parameters, which returned: its result, and what it brought.
    Returned(u64, Option<Box<(Result<Value, Exception>, Brought)>>),
}

/// A message as it went out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// The last step.
    pub(crate) key: StepKey,
    pub(crate) to: Arc<NodeRef>,
    pub(crate) message: Encoded,
    pub(crate) via: Option<Arc<NodeRef>>,
}

/// Who may ask for the same step's call at one time: a chain is in few places.
pub(crate) const REPLY_TO_MAX: usize = 64;

impl StepRecord {
    pub(crate) fn came_from(&self, node: NodeId) -> bool {
        match self {
            Self::Running { from, .. } => from.nodes.contains(&node),
            Self::Calling { reply_to, .. } => reply_to.iter().any(|(to, _)| to.id == node),
            Self::Done(done) => done.from.nodes.contains(&node),
        }
    }

    pub(crate) fn brought_by(&self) -> Bringers {
        match self {
            Self::Running { from, .. } => from.clone(),
            Self::Calling { reply_to, by, .. } => {
                Bringers { nodes: reply_to.iter().map(|(node, _)| node.id).collect(), party: *by }
            }
            Self::Done(done) => done.from.clone(),
        }
    }

    /// The party whose share pays for the record.
    pub(crate) const fn party(&self) -> Party {
        match self {
            Self::Running { from: Bringers { party, .. }, .. } | Self::Calling { by: party, .. } => *party,
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
                let lines = brought.console.iter().map(|line| line.text.len() + line.node.len()).sum::<usize>();
                result.as_ref().map_or_else(|why| why.message.len(), Value::len_bytes) + lines
            }
            Self::Ended(None) | Self::Refused(None) | Self::Forwarded(_, None) | Self::Returned(_, None) => 0,
        }
    }
}

impl DoneStep {
    /// False if there was none any more.
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

/// Nodes for which it is noted separately what was forgotten. All others share one note.
const FORGOTTEN_NODES_MAX: usize = 65_536;

/// When the youngest record was made that had to go before its time, of each node that brought such.
#[derive(Clone, Debug, Default)]
struct Forgotten {
    of: BTreeMap<NodeId, Time>,
    by_time: BTreeSet<(Time, NodeId)>,
    /// Of nodes that are not told apart any more.
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

    /// Who repeats a step that old is told that it is not known, whatever was forgotten.
    fn expire(&mut self, awake: Time, ttl_us: u64) {
        while let Some((at, node)) = self.by_time.first().copied()
            && awake.since(at) >= ttl_us
        {
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

    /// The chain's stay here in which this step was made: the step by which it came, and what is known of that.
    pub(crate) fn stay_of(&self, key: &StepKey) -> Option<(&StepKey, &StepRecord)> {
        self.records.last_up_to(key)
    }

    pub(crate) const fn payload_bytes(&self) -> usize {
        self.rows.payload_bytes() as usize
    }

    /// Whether a step that is not known here may have been done, first sent so long ago by that node.
    pub(crate) fn may_have_forgotten(&self, awake: Time, from: NodeId, age_us: u64, policy: &Policy) -> bool {
        // What came in a socket may have waited there for as long as a silent link is kept.
        let age_us = if age_us == 0 { return false } else { age_us.saturating_add(policy.link_silence_us_max) };
        let forgotten = self.forgotten.of(from);
        age_us >= policy.step_record_ttl_us || forgotten.is_some_and(|at| awake.since(at) <= age_us)
    }

    pub(crate) fn begin(&mut self, key: StepKey, from: Bringers, session: SessionId) {
        self.put(key, StepRecord::Running { from, session });
    }

    pub(crate) fn begin_call(&mut self, key: StepKey, fingerprint: u64, by: Party, to: (Arc<NodeRef>, u64)) {
        self.put(key, StepRecord::Calling { fingerprint, by, reply_to: alloc::vec![to] });
    }

    /// What was begun in one session goes on in another.
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
        let Some(from) = self.records.get(key).map(StepRecord::brought_by) else { return };
        self.remember(awake, key, fate, from, to, policy);
    }

    pub(crate) fn refuse(&mut self, awake: Time, key: &StepKey, from: Bringers, refusal: Encoded, policy: &Policy) {
        let fate = Fate::Refused(Some(Box::new(refusal)));
        self.remember(awake, key, fate, from, Vec::new(), policy);
    }

    /// Remembers what became of a step, begun here or not.
    pub(crate) fn remember(
        &mut self,
        awake: Time,
        key: &StepKey,
        fate: Fate,
        from: Bringers,
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

    /// Forgets what would answer a chain's finished steps once more; that they were done stays known. Returns the nodes to which the chain went from them.
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

    /// A step goes on that was over.
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

    /// Drops the record that was made then, if it has not been replaced since; with `also` done before.
    fn drop_record(&mut self, key: &StepKey, at: Time, also: impl FnOnce(&DoneStep, &mut Forgotten)) {
        if let Some(StepRecord::Done(done)) = self.records.get_mut(key)
            && done.at == at
        {
            done.drop_payload(&mut self.rows);
            also(done, &mut self.forgotten);
            self.records.remove(key);
        }
    }

    /// Drops records that are older than any repetition may be that would be taken for new.
    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        while let Some((at, key)) = self.rows.pop_older(awake, policy.step_record_ttl_us) {
            self.drop_record(&key, at, |_, _| ());
        }
        self.forgotten.expire(awake, policy.step_record_ttl_us);
    }
}

/// A number for a call's target and parameters: another call made under the same step is told by it (FNV-1a; nobody
/// gains by forging it but to get his own chain's old answer).
pub(crate) fn fingerprint(service: &str, function: &str, params: &Value) -> u64 {
    let bytes = service.bytes().chain([0]).chain(function.bytes()).chain([0]).chain(params.as_bytes().iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
