//! The step cache: what this node did for each step, so that a repeated hop or call does not run twice (rpc-chains section 3.9).

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Branch, Brought, ChainId, Encoded, Exception, NodeId, NodeRef, StepKey, Value};

use crate::{
    Policy, SessionId, Time,
    activation::{Activation, Cargo, Phase},
    console::bytes_of,
};

/// What became of a step.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    /// It is being done, in this session.
    Running(SessionId),
    /// This went out for it: it goes out again if the hop is repeated.
    Sent(Sent),
    /// The chain went on from here: whole, so that it can be handed over again.
    Forwarded(Box<Activation>),
    /// It split here, to be merged elsewhere; these sessions or steps are its branches.
    Split { handed: Box<Activation>, children: Vec<StepKey> },
    /// It was not taken over, and nothing was done: this says so.
    Refused(Encoded),
    /// A call that a chain makes from where it is. These ask for its result.
    Calling { print: u64, askers: Vec<(Arc<NodeRef>, u64)> },
    /// The result of such a call, what it brought beside it, and who asked for it.
    Called { print: u64, result: Result<Value, Exception>, brought: Brought, by: Vec<NodeId> },
}

/// The end of a chain or branch, as it went out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// The node by which the chain had come.
    pub(crate) before: NodeId,
    pub(crate) to: Arc<NodeRef>,
    pub(crate) message: Encoded,
    pub(crate) via: Option<Arc<NodeRef>>,
}

/// Who may ask for the same step's call at one time: a chain is in few places.
pub(crate) const ASKERS_MAX: usize = 64;

/// What an entry takes besides its payloads: keys, maps, and the chain's own small parts.
const ENTRY_BYTES: usize = 512;

impl Done {
    fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match self {
                Self::Running(_) | Self::Calling { .. } => 0,
                Self::Sent(Sent { message, .. }) | Self::Refused(message) => message.head.len() + message.tail.len(),
                Self::Forwarded(activation) | Self::Split { handed: activation, .. } => handed_bytes(activation),
                Self::Called { result, brought, .. } => {
                    result.as_ref().map_or(ENTRY_BYTES, Value::len_bytes) + bytes_of(&brought.console)
                }
            }
    }

    /// Where the chain went from here.
    pub(crate) fn went_to(&self) -> Vec<Arc<NodeRef>> {
        match self {
            Self::Sent(Sent { to, .. }) => alloc::vec![to.clone()],
            Self::Forwarded(activation) | Self::Split { handed: activation, .. } => match &activation.phase {
                Phase::Handing(custody) => custody.tried.iter().chain([&custody.to]).cloned().collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Whether the chain came here from that node; of one that is still here its activation knows.
    pub(crate) fn came_from(&self, node: NodeId) -> bool {
        match self {
            Self::Sent(Sent { before, .. }) => *before == node,
            Self::Forwarded(activation) | Self::Split { handed: activation, .. } => activation.before.id == node,
            Self::Calling { askers, .. } => askers.iter().any(|(asker, _)| asker.id == node),
            Self::Called { by, .. } => by.contains(&node),
            Self::Running(_) | Self::Refused(_) => false,
        }
    }

    const fn is_under_way(&self) -> bool {
        matches!(self, Self::Running(_) | Self::Calling { .. })
    }
}

fn handed_bytes(activation: &Activation) -> usize {
    match &activation.phase {
        Phase::Handing(custody) => {
            let params = match &custody.cargo {
                Cargo::Call(call) => call.params.len_bytes(),
                Cargo::Split(_) | Cargo::Sub { .. } => 0,
            };
            ENTRY_BYTES + params + custody.continuation.len() + activation.baggage.bytes()
        }
        _ => 0,
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    entries: BTreeMap<StepKey, Done>,
    /// Finished steps, oldest first; running ones are bounded by `activations_max`.
    finished: VecDeque<(Time, StepKey)>,
    bytes: usize,
    /// When it last forgot a step for want of room, before its time.
    pub(crate) forgot_at: Option<Time>,
}

impl Steps {
    pub(crate) fn get(&self, key: &StepKey) -> Option<&Done> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &StepKey) -> Option<&mut Done> {
        self.entries.get_mut(key)
    }

    pub(crate) fn begin(&mut self, key: StepKey, session: SessionId) {
        self.put(key, Done::Running(session));
    }

    pub(crate) fn begin_call(&mut self, key: StepKey, print: u64, asker: (Arc<NodeRef>, u64)) {
        self.put(key, Done::Calling { print, askers: alloc::vec![asker] });
    }

    /// Everything known of a chain.
    pub(crate) fn of_chain(&self, chain: ChainId) -> impl Iterator<Item = (&StepKey, &Done)> {
        let first = StepKey { chain, branch: Branch::root(), step: 0 };
        self.entries.range(first..).take_while(move |(key, _)| key.chain == chain)
    }

    /// What was begun in one session goes on in another.
    pub(crate) fn run_on(&mut self, key: &StepKey, session: SessionId) {
        if let Some(Done::Running(running)) = self.entries.get_mut(key) {
            *running = session;
        }
    }

    /// Forgets a step that came to nothing, so that it may be tried again.
    pub(crate) fn forget(&mut self, key: &StepKey) {
        if self.entries.get(key).is_some_and(Done::is_under_way) {
            self.remove(key);
        }
    }

    /// Remembers what became of a step that was begun here.
    pub(crate) fn finish(&mut self, now: Time, key: &StepKey, done: Done, policy: &Policy) {
        if self.entries.contains_key(key) {
            self.remember(now, key, done, policy);
        }
    }

    /// Remembers what became of a step, begun here or not.
    pub(crate) fn remember(&mut self, now: Time, key: &StepKey, done: Done, policy: &Policy) {
        let before = self.put(key.clone(), done);
        if before.is_none_or(|before| before.is_under_way()) {
            self.finished.push_back((now, key.clone()));
        }
        self.evict(now, policy);
    }

    /// A step goes on that was finished: its place in the row of finished ones is found void later.
    pub(crate) fn reopen(&mut self, key: &StepKey, session: SessionId) -> Option<Done> {
        self.finished.retain(|(_, finished)| finished != key);
        self.put(key.clone(), Done::Running(session))
    }

    fn put(&mut self, key: StepKey, done: Done) -> Option<Done> {
        self.bytes += done.bytes();
        let before = self.entries.insert(key, done);
        self.bytes -= before.as_ref().map_or(0, Done::bytes);
        before
    }

    fn remove(&mut self, key: &StepKey) {
        if let Some(done) = self.entries.remove(key) {
            self.bytes -= done.bytes();
        }
    }

    pub(crate) fn evict(&mut self, now: Time, policy: &Policy) {
        while let Some((at, _)) = self.finished.front() {
            let full = self.finished.len() > policy.step_cache_entries_max || self.bytes > policy.step_cache_bytes_max;
            if !full && now.since(*at) < policy.step_cache_ttl_us {
                break;
            }
            let Some((_, key)) = self.finished.pop_front() else {
                break;
            };
            if full {
                self.forgot_at = Some(now);
            }
            self.remove(&key);
        }
    }
}

/// A number for a call's target and parameters: another call made under the same step is told by it (FNV-1a; nobody
/// gains by forging it but to get his own chain's old answer).
pub(crate) fn print_of(service: &str, function: &str, params: &Value) -> u64 {
    let bytes = service.bytes().chain([0]).chain(function.bytes()).chain([0]).chain(params.as_bytes().iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
