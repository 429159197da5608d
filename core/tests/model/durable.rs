//! What nodes have on their disks of durable functions.

use std::collections::BTreeMap;

use catena_core::{Answer, Way};
use catena_wire::{Exception, Fault, PossibleDuplicate, StepKey, Value, names};

/// The results of steps, and the ways that made them.
pub(crate) type Disk = BTreeMap<StepKey, (Way, Value)>;

/// What is answered without doing anything: the step was done before, or another way of its chain has been here.
pub(crate) fn kept(
    disk: &Disk,
    key: &StepKey,
    duplicate: Option<&PossibleDuplicate>,
) -> Option<Result<Answer, Exception>> {
    if let Some((_, value)) = disk.get(key) {
        return Some(Ok(Answer::Value(value.clone())));
    }
    let way = Way::of(key, duplicate);
    let mut of_chain = disk.iter().filter(|(known, _)| known.chain == key.chain);
    of_chain.any(|(_, (other, _))| way.is_overtaken_by(other)).then(|| {
        let why = "another way of the chain has been here";
        Err(Exception::new(names::NODE_LOST, Fault::Node, why).outcome_unknown())
    })
}
