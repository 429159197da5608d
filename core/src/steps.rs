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
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        self.bytes += size(&message);
        if let Done::Sent { message: before, .. } = core::mem::replace(entry, Done::Sent { to, message }) {
            self.bytes -= size(&before);
        } else {
            self.finished.push_back((now, key.clone()));
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
            if let Some(Done::Sent { message, .. }) = self.entries.remove(&key) {
                self.bytes -= size(&message);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn size(message: &Encoded) -> usize {
    message.head.len() + message.tail.len()
}
