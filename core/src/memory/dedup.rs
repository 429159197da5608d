//! The dedup table: what this node did for each step, so that a repeated hop or call does not run twice (rpc-chains section 3.9).
//!
//! Two things are kept apart. A *record* says what became of a step: it is small, and kept for `step_record_ttl_us` of the node's time awake.
//! Its *payload* is what is needed to answer the step once more: it is large, bounded by bytes, and goes first. A hop or call that
//! is sent again says how long ago it first went out. If it finds no record, and this node may have forgotten one in the
//! meantime, then whether the step was done is unknown; it is never taken for new (RIFL, SOSP 2015, section 3).

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Brought, ChainId, Encoded, Exception, NodeId, NodeRef, StepKey, Value};

use super::records::Records;
use crate::{Policy, SessionId, Time, activation::Activation, collections::Shares};

#[derive(Clone, Debug)]
pub(crate) enum StepRecord {
    /// It is being done, in this session, for the chain that this node handed over.
    Running { from: NodeId, session: SessionId },
    /// It is a call that a chain makes from where it is; these ask for its result.
    Calling { fingerprint: u64, reply_to: Vec<(Arc<NodeRef>, u64)> },
    /// It is over here.
    Done(DoneStep),
}

#[derive(Clone, Debug)]
pub(crate) struct DoneStep {
    pub(crate) fate: Fate,
    /// The nodes by which the chain came: they may stop it, and ask where it is.
    pub(crate) from: Vec<NodeId>,
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
            Self::Running { from, .. } => *from == node,
            Self::Calling { reply_to, .. } => reply_to.iter().any(|(to, _)| to.id == node),
            Self::Done(done) => done.from.contains(&node),
        }
    }

    pub(crate) fn brought_by(&self) -> Vec<NodeId> {
        match self {
            Self::Running { from, .. } => alloc::vec![*from],
            Self::Calling { reply_to, .. } => reply_to.iter().map(|(node, _)| node.id).collect(),
            Self::Done(done) => done.from.clone(),
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
    /// Gives how many bytes that were, if there was one.
    fn drop_payload(&mut self) -> Option<usize> {
        let dropped = match &mut self.fate {
            Fate::Ended(sent) => sent.take().is_some(),
            Fate::Refused(message) => message.take().is_some(),
            Fate::Forwarded(_, chain) => chain.take().is_some(),
            Fate::Returned(_, returned) => returned.take().is_some(),
        };
        dropped.then_some(self.bytes)
    }
}

/// Records of the steps that one peer brought, the oldest first.
#[derive(Clone, Debug, Default)]
struct Peer {
    finished: VecDeque<(Time, StepKey)>,
    /// When the youngest record was made that had to go before its time.
    forgot: Option<Time>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DedupTable {
    records: Records<StepRecord>,
    peers: BTreeMap<NodeId, Peer>,
    /// How many records wait in `peers`, and of whom.
    finished: Shares,
    /// Those with a payload, the oldest first.
    payloads: VecDeque<(Time, StepKey)>,
    payload_bytes: usize,
    /// What a peer forgot that has no records any more.
    forgot: Option<Time>,
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
        self.payload_bytes
    }

    /// Whether a step that is not known here may have been done, first sent so long ago by that node.
    pub(crate) fn may_have_forgotten(&self, awake: Time, from: NodeId, age_us: u64, policy: &Policy) -> bool {
        // What came in a socket may have waited there for as long as a silent link is kept.
        let age_us = if age_us == 0 { return false } else { age_us.saturating_add(policy.link_silence_us_max) };
        let forgot = self.peers.get(&from).map_or(self.forgot, |peer| peer.forgot.max(self.forgot));
        age_us >= policy.step_record_ttl_us || forgot.is_some_and(|at| awake.since(at) <= age_us)
    }

    pub(crate) fn begin(&mut self, key: StepKey, from: NodeId, session: SessionId) {
        self.put(key, StepRecord::Running { from, session });
    }

    pub(crate) fn begin_call(&mut self, key: StepKey, fingerprint: u64, to: (Arc<NodeRef>, u64)) {
        self.put(key, StepRecord::Calling { fingerprint, reply_to: alloc::vec![to] });
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

    pub(crate) fn refuse(&mut self, awake: Time, key: &StepKey, from: NodeId, refusal: Encoded, policy: &Policy) {
        let fate = Fate::Refused(Some(Box::new(refusal)));
        self.remember(awake, key, fate, alloc::vec![from], Vec::new(), policy);
    }

    /// Remembers what became of a step, begun here or not.
    pub(crate) fn remember(
        &mut self,
        awake: Time,
        key: &StepKey,
        fate: Fate,
        from: Vec<NodeId>,
        to: Vec<Arc<NodeRef>>,
        policy: &Policy,
    ) {
        let peer = from.first().copied().unwrap_or(NodeId(0));
        let bytes = fate.payload_bytes();
        self.put(key.clone(), StepRecord::Done(DoneStep { fate, from, to, at: awake, bytes }));
        self.payload_bytes += bytes;
        self.payloads.push_back((awake, key.clone()));
        self.make_room(peer, policy);
        self.peers.entry(peer).or_default().finished.push_back((awake, key.clone()));
        self.finished.add(peer);
        self.drop_payloads(policy);
    }

    /// Forgets what would answer a chain's finished steps once more; that they were done stays known. Returns the nodes to which the chain went from them.
    pub(crate) fn release(&mut self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        let mut next = Vec::new();
        for record in self.records.of_chain_mut(chain) {
            let StepRecord::Done(done) = record else { continue };
            if let Some(bytes) = done.drop_payload() {
                self.payload_bytes -= bytes;
                next.extend(done.to.iter().cloned());
            }
        }
        next
    }

    /// A step goes on that was over: its places in the rows of records and payloads are found void later.
    pub(crate) fn reopen(&mut self, key: &StepKey, session: SessionId) {
        let from = match self.records.get(key) {
            Some(StepRecord::Done(done)) => done.from.first().copied().unwrap_or(NodeId(0)),
            _ => return,
        };
        self.put(key.clone(), StepRecord::Running { from, session });
    }

    fn put(&mut self, key: StepKey, record: StepRecord) {
        if let Some(StepRecord::Done(mut done)) = self.records.insert(key, record) {
            self.payload_bytes -= done.drop_payload().unwrap_or_default();
        }
    }

    /// The record that was made then, if it has not been replaced since.
    fn done_at(&mut self, key: &StepKey, at: Time) -> Option<&mut DoneStep> {
        match self.records.get_mut(key) {
            Some(StepRecord::Done(done)) if done.at == at => Some(done),
            _ => None,
        }
    }

    fn drop_payloads(&mut self, policy: &Policy) {
        let full = |steps: &Self| {
            steps.payload_bytes > policy.step_payload_bytes_max || steps.payloads.len() > policy.step_records_max
        };
        while full(self)
            && let Some((at, key)) = self.payloads.pop_front()
        {
            self.payload_bytes -= self.done_at(&key, at).and_then(DoneStep::drop_payload).unwrap_or_default();
        }
    }

    /// For one more record of a step that this peer brought.
    fn make_room(&mut self, newest: NodeId, policy: &Policy) {
        while self.finished.all() >= policy.step_records_max
            && let Some(peer) = self.finished.gives_way(newest, policy.step_records_max)
        {
            self.drop_oldest(peer, true);
        }
    }

    fn drop_oldest(&mut self, peer: NodeId, early: bool) {
        let Some(row) = self.peers.get_mut(&peer) else { return };
        let Some((at, key)) = row.finished.pop_front() else { return };
        self.finished.remove(peer);
        if let Some(StepRecord::Done(done)) = self.records.get_mut(&key)
            && done.at == at
        {
            self.payload_bytes -= done.drop_payload().unwrap_or_default();
            row.forgot = if early { row.forgot.max(Some(at)) } else { row.forgot };
            self.records.remove(&key);
        }
    }

    /// Drops records that are older than any repetition may be that would be taken for new.
    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        let old = |at: Time| awake.since(at) >= policy.step_record_ttl_us;
        let peers: Vec<NodeId> = self.peers.keys().copied().collect();
        for peer in peers {
            while self.peers.get(&peer).and_then(|row| row.finished.front()).is_some_and(|(at, _)| old(*at)) {
                self.drop_oldest(peer, false);
            }
            if self.peers.get(&peer).is_some_and(|row| row.finished.is_empty()) {
                let forgot = self.peers.remove(&peer).and_then(|row| row.forgot);
                self.forgot = self.forgot.max(forgot);
            }
        }
        while self.payloads.front().is_some_and(|(at, _)| old(*at)) {
            self.payloads.pop_front();
        }
    }
}

/// A number for a call's target and parameters: another call made under the same step is told by it (FNV-1a; nobody
/// gains by forging it but to get his own chain's old answer).
pub(crate) fn fingerprint(service: &str, function: &str, params: &Value) -> u64 {
    let bytes = service.bytes().chain([0]).chain(function.bytes()).chain([0]).chain(params.as_bytes().iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
