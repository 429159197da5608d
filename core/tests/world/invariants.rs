//! What must hold after every run, whatever went wrong in it. One small function each.

use std::collections::BTreeMap;

use catena_wire::{Exception, Outcome, names};

use crate::{
    guest::{self, Returned},
    plan::Plan,
    record::{Record, Seen},
};

type Verdict = Result<(), String>;

/// All of them.
pub(crate) fn check(plan: &Plan, record: &Record) -> Verdict {
    came_to_rest(record)?;
    asked_nothing_forbidden(record)?;
    left_nothing_behind(record)?;
    budgets_only_shrink(plan, record)?;
    no_effect_twice(record)?;
    calls_end_once(record)?;
    for seen in record.chains.values() {
        let judged = ended_once(seen)
            .and_then(|()| answers_in_order(seen))
            .and_then(|()| end_is_lawful(seen))
            .and_then(|()| result_is_right(plan, record, seen))
            .and_then(|()| faultless_runs_succeed(plan, seen));
        judged.map_err(|why| format!("chain {} ({:?}): {why}", seen.run, plan.chains[seen.program].program))?;
    }
    Ok(())
}

fn came_to_rest(record: &Record) -> Verdict {
    record.restless.clone().map_or(Ok(()), Err)
}

fn asked_nothing_forbidden(record: &Record) -> Verdict {
    record.violations.first().cloned().map_or(Ok(()), Err)
}

fn left_nothing_behind(record: &Record) -> Verdict {
    if record.busy.is_empty() { Ok(()) } else { Err(format!("still under way at the end: {:?}", record.busy)) }
}

/// A chain spends a hop on each call that it makes, and on each that it could not make; its time only goes down.
fn budgets_only_shrink(plan: &Plan, record: &Record) -> Verdict {
    let mut least: BTreeMap<_, (u32, u64)> = BTreeMap::new();
    for sent in &record.sent {
        let (Some(key), Some(budget)) = (&sent.key, &sent.budget) else { continue };
        if key.step + budget.hops_left() > plan.hops {
            return Err(format!("step {} has {} hops left of {}", key.step, budget.hops_left(), plan.hops));
        }
        let (step, time) = *least.get(&key.chain).unwrap_or(&(0, plan.time_us));
        let went_on = record.went_on.contains(&record.chains[&key.chain].run);
        if key.step > step {
            if budget.time_left_us() > time && !went_on {
                return Err(format!("step {} has {} us left, {time} before", key.step, budget.time_left_us()));
            }
            least.insert(key.chain, (key.step, budget.time_left_us()));
        }
    }
    Ok(())
}

/// While no node crashes, and no chain went on after an outcome that it could not know.
fn no_effect_twice(record: &Record) -> Verdict {
    if record.crashes > 0 {
        return Ok(());
    }
    let doubled = record.effects.iter().find(|((run, _), count)| **count > 1 && !record.went_on.contains(run));
    doubled.map_or(Ok(()), |((run, call), count)| Err(format!("call {call} of run {run} took effect {count} times")))
}

fn calls_end_once(record: &Record) -> Verdict {
    for (call, results) in &record.calls {
        let withdrawn = record.withdrawn.contains(call);
        let crashed = record.crashes > 0;
        match results.len() {
            1 => {}
            0 if withdrawn || crashed => {}
            n => return Err(format!("plain call {call:?} ended {n} times")),
        }
    }
    Ok(())
}

fn ended_once(seen: &Seen) -> Verdict {
    match (seen.ends.len(), seen.after_end) {
        (1, 0) => Ok(()),
        (0, 0) if seen.origin_crashed => Ok(()),
        (ends, after) => Err(format!("{ends} ends, {after} replies after the end")),
    }
}

fn answers_in_order(seen: &Seen) -> Verdict {
    for (position, value) in seen.partials.iter().enumerate() {
        let (run, number): (u64, u32) = minicbor::decode(value.as_bytes()).map_err(|why| why.to_string())?;
        if run != seen.run || number as usize != position {
            return Err(format!("answer {number} of run {run} came as number {position} of run {}", seen.run));
        }
    }
    Ok(())
}

const NAMES: [&str; 17] = [
    names::NODE_UNREACHABLE,
    names::NODE_LOST,
    names::UNKNOWN_SERVICE,
    names::UNKNOWN_FUNCTION,
    names::DEADLINE_EXCEEDED,
    names::HOP_BUDGET_EXCEEDED,
    names::LIMIT_EXCEEDED,
    names::CODE_MISSING,
    names::BAD_CODE,
    names::BAD_CONTINUATION,
    names::STALLED,
    names::OVERLOADED,
    names::CANCELLED,
    names::CHAIN_LOST,
    names::PROTOCOL,
    "Oops",
    "Thrown",
];

fn end_is_lawful(seen: &Seen) -> Verdict {
    let Some((outcome, path, _)) = seen.ends.first() else { return Ok(()) };
    if path.is_empty() {
        return Err("the end has no path".into());
    }
    match outcome {
        Outcome::Done(_) => Ok(()),
        Outcome::Threw(Exception { path, .. }) if path.is_empty() => Err("the exception has no path".into()),
        Outcome::Threw(why) if NAMES.contains(&why.name.as_str()) => Ok(()),
        Outcome::Threw(why) => Err(format!("{why} is none of Catena's exceptions and not the program's own")),
    }
}

/// A result that did arrive is the right one, and all answers came before it.
fn result_is_right(plan: &Plan, record: &Record, seen: &Seen) -> Verdict {
    let Some((Outcome::Done(value), ..)) = seen.ends.first() else { return Ok(()) };
    let returned: Returned = minicbor::decode(value.as_bytes()).map_err(|why| why.to_string())?;
    if seen.partials.len() != returned.2 as usize && !record.went_on.contains(&seen.run) {
        return Err(format!("{} answers came of {}", seen.partials.len(), returned.2));
    }
    let (expected, _) = guest::expected(&plan.chains[seen.program].program, seen.run, plan.hops);
    match expected {
        _ if returned.1 => Ok(()),
        Ok(expected) if expected == returned => Ok(()),
        expected => Err(format!("returned {returned:?} where {expected:?} was right")),
    }
}

fn faultless_runs_succeed(plan: &Plan, seen: &Seen) -> Verdict {
    if !plan.faultless() {
        return Ok(());
    }
    let (expected, emits) = guest::expected(&plan.chains[seen.program].program, seen.run, plan.hops);
    if seen.partials.len() != emits as usize {
        return Err(format!("{} answers came of {emits}, and nothing was at fault", seen.partials.len()));
    }
    match (&seen.ends[0].0, expected) {
        (Outcome::Done(_), Ok(_)) => Ok(()),
        (Outcome::Threw(why), Err(name)) if why.name == name => Ok(()),
        (outcome, expected) => {
            Err(format!("ended as {outcome:?} where {expected:?} was right, and nothing was at fault"))
        }
    }
}
