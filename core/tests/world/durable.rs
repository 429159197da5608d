//! The step stores of the nodes: what they keep of durable functions survives their crashes (rpc-chains section 3.9).

use std::collections::BTreeMap;

use catena_core::{Answer, Way};
use catena_wire::{Exception, Fault, PossibleDuplicate, StepKey, Value, names};

use crate::sim::World;

/// What a node has on its disk of each step: of what call, by which way of its chain, and what came of it.
pub(crate) type Store = BTreeMap<StepKey, (Value, Option<PossibleDuplicate>, Kept)>;

#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// It was begun.
    Intent,
    /// It was done, and this is what came of it.
    Done(Result<Answer, Exception>),
}

impl World {
    /// What is answered without doing anything, because this step was begun here before, or another way of its chain may have done it.
    pub(crate) fn kept_of(
        &mut self,
        host: usize,
        key: &StepKey,
        params: &Value,
        duplicate: Option<&PossibleDuplicate>,
    ) -> Option<Result<Answer, Exception>> {
        let lost = |why: &str| Err(Exception::new(names::NODE_LOST, Fault::Node, why).outcome_unknown());
        let Some((call, _, kept)) = self.stores[host].get(key) else {
            let other = another_way(&self.stores[host], key, duplicate);
            return other.then(|| lost("another way of the chain has been here"));
        };
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
            Kept::Intent => lost("this step was begun before and its node was lost"),
        })
    }

    pub(crate) fn begin_to_keep(
        &mut self,
        host: usize,
        key: StepKey,
        params: Value,
        duplicate: Option<&PossibleDuplicate>,
    ) {
        self.stores[host].insert(key, (params, duplicate.cloned(), Kept::Intent));
    }

    /// The result is on the disk.
    pub(crate) fn keep(&mut self, host: usize, key: &StepKey, result: Result<Answer, Exception>) {
        if let Some((_, _, kept)) = self.stores[host].get_mut(key) {
            *kept = Kept::Done(result);
        }
    }
}

/// Whether the store has a step of another way of this chain, from where the ways parted on.
fn another_way(store: &Store, key: &StepKey, duplicate: Option<&PossibleDuplicate>) -> bool {
    let way = Way::of(key, duplicate);
    let mut of_chain = store.iter().filter(|(known, _)| known.chain == key.chain);
    of_chain.any(|(known, (_, duplicate, _))| way.is_overtaken_by(&Way::of(known, duplicate.as_ref())))
}
