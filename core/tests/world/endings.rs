//! What each of the three endings promises (rpc-chains section 3.9), held against what took effect: answered, failed before the
//! effect of a step, or unknown.
//!
//! A run that went on in two places is judged by what its functions were told and by its uncertainty only: what its end says of a step
//! does not hold for the other one of the two.

use std::collections::{BTreeMap, BTreeSet};

use catena_wire::{Branch, ChainId, Exception, Outcome, StepKey, names};

use crate::{
    guest::{Params, Thrown},
    record::{Record, Seen},
    services::is_effect,
};

type Verdict = Result<(), String>;

/// What holds for each call.
pub(crate) fn check(record: &Record) -> Verdict {
    what_was_given_took_effect(record)?;
    what_had_failed_took_none(record)?;
    plain_calls_end_as_they_went(record)?;
    durable_steps_are_done_once(record)
}

/// What holds for the end of each chain.
pub(crate) fn check_end(record: &Record, chain: ChainId, seen: &Seen) -> Verdict {
    let Some((Outcome::Threw(why), ..)) = seen.ends.first() else { return tells_its_last_step(record, chain, seen) };
    uncertainty_is_told(record, seen, why)?;
    if why.unknown {
        return Ok(());
    }
    failed_before_its_effect(record, chain, seen, why)?;
    fails_for_a_reason(why)?;
    tells_its_last_step(record, chain, seen)
}

fn what_was_given_took_effect(record: &Record) -> Verdict {
    let missing = record.given.iter().find(|params| !record.took.contains(*params));
    missing.map_or(Ok(()), |params| Err(format!("the result of call {params:?} was given, and it never took effect")))
}

/// Neither before the function was told so, nor after.
fn what_had_failed_took_none(record: &Record) -> Verdict {
    // Of a chain that was cancelled nobody hears how it went on.
    let open = |params: &Params, why: &Exception| record.went_on.contains(&params.0) || why.name == names::CANCELLED;
    let wrong = |(params, why): &(&Params, &Exception)| record.took.contains(*params) && !open(params, why);
    let wrong = record.denied.iter().find(wrong);
    wrong.map_or(Ok(()), |(params, why)| Err(format!("call {params:?} took effect, and its function was told {why}")))
}

fn plain_calls_end_as_they_went(record: &Record) -> Verdict {
    for (call, params) in &record.plain {
        let effect = record.issued.get(params).is_some_and(|issued| issued.iter().all(is_effect));
        let took = record.took.contains(params);
        match record.calls.get(call).and_then(|results| results.first()) {
            Some(Ok(_)) if effect && !took => return Err(format!("plain call {params:?} was answered, and not made")),
            Some(Err(why)) if !why.unknown && took => {
                return Err(format!("plain call {params:?} was made, and told {why}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whatever happens to its node, and at one node only.
fn durable_steps_are_done_once(record: &Record) -> Verdict {
    let mut nodes = BTreeMap::<_, BTreeSet<usize>>::new();
    for ((host, key, params), times) in &record.durable {
        let nodes = nodes.entry((key, params)).or_default();
        nodes.insert(*host);
        if *times > 1 || nodes.len() > 1 {
            return Err(format!("durable {key:?} took effect {times} times at n{host}, of the nodes {nodes:?}"));
        }
    }
    Ok(())
}

/// A call failed, and that is the step named: it took no effect, before the end or after it.
fn failed_before_its_effect(record: &Record, chain: ChainId, seen: &Seen, why: &Exception) -> Verdict {
    if why.target.is_none() || record.went_on.contains(&seen.run) {
        return Ok(());
    }
    let key = StepKey { chain, branch: why.branch.clone(), step: why.step };
    match record.ran.get(&key) {
        Some(ran) if ran.effects > 0 => Err(format!("{key:?} took effect, and the chain failed before that: {why}")),
        _ => Ok(()),
    }
}

/// What may come of no call: of what the function is, or does itself.
pub(crate) const OF_NO_CALL: [&str; 7] = [
    "Thrown",
    names::STALLED,
    names::DEADLINE_EXCEEDED,
    names::LIMIT_EXCEEDED,
    names::OVERLOADED,
    names::CODE_MISSING,
    names::BAD_CODE,
];

/// What names no call was thrown by the function itself, or came of what it is.
fn fails_for_a_reason(why: &Exception) -> Verdict {
    match &why.target {
        None if !OF_NO_CALL.contains(&why.name.as_str()) => Err(format!("it does not say which call failed: {why}")),
        _ => Ok(()),
    }
}

/// A function that was told of an outcome that is unknown, and throws whatever it likes: the end is unknown.
fn uncertainty_is_told(record: &Record, seen: &Seen, why: &Exception) -> Verdict {
    if why.unknown {
        return Ok(());
    }
    let thrown = why.params.as_ref().and_then(|params| minicbor::decode::<Thrown>(params.as_bytes()).ok());
    if why.name == "Thrown" && matches!(thrown, Some((_, _, true))) {
        return Err(format!("its function's uncertainty was forgotten: {why}"));
    }
    // There may be two of it, one of which was uncertain.
    let mut thrown = record.uncaught.iter().filter(|thrown| thrown.who == (seen.run, 0)).peekable();
    if thrown.peek().is_some() && thrown.all(|thrown| thrown.uncertain && thrown.name == why.name) {
        return Err(format!("its function was told of an outcome that is unknown: {why}"));
    }
    Ok(())
}

/// A function may catch an exception, go on, and throw it later: how far it went shows all the same.
fn tells_its_last_step(record: &Record, chain: ChainId, seen: &Seen) -> Verdict {
    if seen.ends.is_empty() || record.went_on.contains(&seen.run) {
        return Ok(());
    }
    let made = record.ran.keys().filter(|key| key.chain == chain && key.branch == Branch::root());
    let last = made.map(|key| key.step).max().unwrap_or_default();
    if last > seen.last_step {
        return Err(format!("step {last} was made, and the end says that {} was the last", seen.last_step));
    }
    match &seen.ends[0].0 {
        Outcome::Threw(why) if why.branch.is_root() && why.step > seen.last_step => {
            Err(format!("it failed after its last step, {}: {why}", seen.last_step))
        }
        _ => Ok(()),
    }
}
