//! The step stores of the nodes: what they keep of durable functions survives their crashes (rpc-chains section 3.9).

use std::collections::BTreeMap;

use catena_core::Answer;
use catena_wire::{Exception, Fault, StepKey, Value, names};

use crate::sim::World;

/// What a node has on its disk of each step: of what call, and what came of it.
pub(crate) type Store = BTreeMap<StepKey, (Value, Kept)>;

#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// It was begun.
    Intent,
    /// It was done, and this is what came of it.
    Done(Result<Answer, Exception>),
}

impl World {
    /// What is answered without doing anything, because this step was begun here before.
    pub(crate) fn kept_of(&mut self, host: usize, key: &StepKey, params: &Value) -> Option<Result<Answer, Exception>> {
        let (call, kept) = self.stores[host].get(key)?;
        self.record.asked_again += 1;
        Some(match kept {
            _ if call != params => {
                let why = "another call was made under this step";
                Err(Exception::new(names::PROTOCOL, Fault::Caller, why).outcome_unknown())
            }
            Kept::Done(result) => {
                self.record.answered_from_store += 1;
                result.clone()
            }
            Kept::Intent => {
                let why = "this step was begun before and its node was lost";
                Err(Exception::new(names::NODE_LOST, Fault::Node, why).outcome_unknown())
            }
        })
    }

    pub(crate) fn begin_to_keep(&mut self, host: usize, key: StepKey, params: Value) {
        self.stores[host].insert(key, (params, Kept::Intent));
    }

    /// The result is on the disk.
    pub(crate) fn keep(&mut self, host: usize, key: &StepKey, result: Result<Answer, Exception>) {
        if let Some((_, kept)) = self.stores[host].get_mut(key) {
            *kept = Kept::Done(result);
        }
    }
}
