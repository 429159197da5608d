//! The step cache: what this node did for each step, so that a repeated hop does not run twice (rpc-chains section 3.9).

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use catena_wire::{Encoded, NodeRef, StepKey};

use crate::{Policy, SessionId, Time};

/// What became of a step.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    /// It is being done, in this session.
    Running(SessionId),
    /// This went out for it: it goes out again if the hop is repeated.
    Sent { to: Arc<NodeRef>, message: Encoded },
    /// It was not taken over, and nothing was done: this says so.
    Refused(Encoded),
}

impl Done {
    fn bytes(&self) -> usize {
        match self {
            Self::Running(_) => 0,
            Self::Sent { message, .. } | Self::Refused(message) => message.head.len() + message.tail.len(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Steps {
    entries: BTreeMap<StepKey, Done>,
    /// Finished steps, oldest first; running ones are bounded by `activations_max`.
    finished: VecDeque<(Time, StepKey)>,
    bytes: usize,
}

impl Steps {
    pub(crate) fn get(&self, key: &StepKey) -> Option<&Done> {
        self.entries.get(key)
    }

    pub(crate) fn begin(&mut self, key: StepKey, session: SessionId) {
        self.entries.insert(key, Done::Running(session));
    }

    /// Forgets a step that came to nothing, so that it may be tried again.
    pub(crate) fn forget(&mut self, key: &StepKey) {
        if matches!(self.entries.get(key), Some(Done::Running(_))) {
            self.entries.remove(key);
        }
    }

    pub(crate) fn finish(&mut self, now: Time, key: &StepKey, to: Arc<NodeRef>, message: Encoded, policy: &Policy) {
        if self.entries.contains_key(key) {
            self.remember(now, key, Done::Sent { to, message }, policy);
        }
    }

    /// Remembers that a step was not taken over.
    pub(crate) fn refuse(&mut self, now: Time, key: &StepKey, message: Encoded, policy: &Policy) {
        self.remember(now, key, Done::Refused(message), policy);
    }

    fn remember(&mut self, now: Time, key: &StepKey, done: Done, policy: &Policy) {
        self.bytes += done.bytes();
        match self.entries.insert(key.clone(), done) {
            None | Some(Done::Running(_)) => self.finished.push_back((now, key.clone())),
            Some(before) => self.bytes -= before.bytes(),
        }
        self.evict(now, policy);
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
            if let Some(done) = self.entries.remove(&key) {
                self.bytes -= done.bytes();
            }
        }
    }
}
