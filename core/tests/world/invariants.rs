//! What must hold after every run, whatever went wrong in it. One small function each.

use std::collections::BTreeMap;

use catena_wire::{Branch, Exception, LogLine, Outcome, Value, names};

use crate::{
    endings,
    expected::{expected, is_caught_elsewhere, is_plain},
    guest::{Returned, is_its_own, of_sub_chain},
    plan::Plan,
    record::{Places, Record, Seen},
};

type Verdict = Result<(), String>;

/// All of them.
pub(crate) fn check(plan: &Plan, record: &Record) -> Verdict {
    came_to_rest(record)?;
    asked_nothing_forbidden(record)?;
    left_nothing_behind(record)?;
    budgets_only_shrink(plan, record)?;
    hops_are_never_exceeded(plan, record)?;
    no_effect_twice(record)?;
    nothing_runs_in_two_places(record)?;
    sub_chains_are_heard_in_order(record)?;
    calls_end_once(record)?;
    endings::check(record)?;
    for (chain, seen) in &record.chains {
        let judged = ended_once(seen)
            .and_then(|()| answers_in_order(seen))
            .and_then(|()| lines_in_order(record, seen))
            .and_then(|()| end_is_lawful(seen))
            .and_then(|()| endings::check_end(record, *chain, seen))
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
        let line = (key.chain, key.branch.clone());
        let (step, time) = *least.get(&line).unwrap_or(&(0, plan.time_us));
        let went_on = record.chains.get(&key.chain).is_none_or(|seen| record.went_on.contains(&seen.run));
        if key.step > step {
            if budget.time_left_us() > time && !went_on {
                return Err(format!("step {} has {} us left, {time} before", key.step, budget.time_left_us()));
            }
            least.insert(line, (key.step, budget.time_left_us()));
        }
    }
    Ok(())
}

/// Over all branches together, and the sub-chains that joined: no more calls than the chain was given.
fn hops_are_never_exceeded(plan: &Plan, record: &Record) -> Verdict {
    let mut made: BTreeMap<_, u32> = BTreeMap::new();
    for key in record.ran.keys() {
        *made.entry(key.chain).or_default() += 1;
    }
    let went_on = |chain| record.chains.get(chain).is_none_or(|seen| record.went_on.contains(&seen.run));
    let over = made.iter().find(|(chain, calls)| **calls > plan.hops && !went_on(chain));
    over.map_or(Ok(()), |(chain, calls)| Err(format!("{calls} calls of {chain}, which may make {}", plan.hops)))
}

/// Whatever happens, if its function is declared to be neither repeatable nor durable. Otherwise, where no node crashed that did it, and no chain
/// went on after an outcome that it could not know.
fn no_effect_twice(record: &Record) -> Verdict {
    let crashed = |places: &Places| places.at.iter().any(|host| record.crashed.contains(host));
    let doubled = record.places.iter().find(|((run, ..), places)| {
        places.at.len() > 1 && (places.plain || !(record.went_on.contains(run) || crashed(places)))
    });
    doubled.map_or(Ok(()), |(whose, places)| Err(format!("call {whose:?} took effect at hosts {:?}", places.at)))
}

/// The same step of the same chain at two nodes: only if its function may be done again; if it is durable, `endings` judges it.
fn nothing_runs_in_two_places(record: &Record) -> Verdict {
    let doubled = record.ran.iter().find(|(_, ran)| ran.on.len() > 1 && !ran.repeatable && !ran.durable);
    doubled.map_or(Ok(()), |(key, ran)| Err(format!("{key:?} ran at {:?}", ran.on)))
}

fn sub_chains_are_heard_in_order(record: &Record) -> Verdict {
    for values in record.heard.values() {
        let whose = match in_order(values) {
            Ok(whose) => whose,
            // There may be two of it, and both are heard.
            Err(_) if values.iter().any(|value| record.went_on.contains(&run_of(value))) => continue,
            Err(why) => return Err(why),
        };
        if let Some(own) = whose.keys().find(|(_, own)| !of_sub_chain(*own)) {
            return Err(format!("answers of {own:?}, which is no sub-chain, went to a service"));
        }
    }
    Ok(())
}

fn run_of(value: &Value) -> u64 {
    minicbor::decode::<(u64, u64, u32)>(value.as_bytes()).map_or(0, |(run, ..)| run)
}

type Whose = BTreeMap<(u64, u64), u32>;

/// Each branch's answers come in order and once; how many each has sent.
fn in_order(values: &[Value]) -> Result<Whose, String> {
    let mut next = Whose::new();
    for value in values {
        let (run, own, number): (u64, u64, u32) = minicbor::decode(value.as_bytes()).map_err(|why| why.to_string())?;
        let next = next.entry((run, own)).or_default();
        if *next != number {
            return Err(format!("answer {number} of ({run}, {own}) came as its number {next}"));
        }
        *next += 1;
    }
    Ok(next)
}

fn calls_end_once(record: &Record) -> Verdict {
    for (call, results) in &record.calls {
        let withdrawn = record.withdrawn.contains(call);
        let crashed = record.crashed.contains(&call.0);
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
    let whose = in_order(&seen.partials)?;
    let foreign = whose.keys().find(|(run, own)| *run != seen.run || of_sub_chain(*own));
    foreign.map_or(Ok(()), |(run, own)| Err(format!("answers of ({run}, {own}) came to run {}", seen.run)))
}

const NAMES: [&str; 18] = [
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
    names::RUNS_NO_GUESTS,
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
    let program = &plan.chains[seen.program].program;
    let expected = expected(program, seen.run, plan.hops, plan.services());
    let open = is_caught_elsewhere(program) && !plan.faultless();
    if record.hurt.contains(&seen.run) || open || (expected.strained && !is_plain(program)) {
        return Ok(());
    }
    if seen.partials.len() != expected.answers as usize && !record.went_on.contains(&seen.run) {
        return Err(format!("{} answers came of {}", seen.partials.len(), expected.answers));
    }
    match expected.end {
        Ok(expected) if expected == returned => Ok(()),
        expected => Err(format!("returned {returned:?} where {expected:?} was right")),
    }
}

/// Each line of the console once, those of a branch in their order and none left out, and after what its parents said before.
fn lines_in_order(record: &Record, seen: &Seen) -> Verdict {
    // Of a chain that was given up, what its branches said last may be lost with them.
    let lossy = seen.ends.first().is_none_or(|(outcome, ..)| matches!(outcome, Outcome::Threw(why) if why.unknown));
    let mut shown: BTreeMap<&Branch, Vec<&LogLine>> = BTreeMap::new();
    for line in &seen.console {
        let lines = shown.entry(&line.branch).or_default();
        let last = lines.last().map(|line| line.number);
        if last.is_some_and(|last| last >= line.number) {
            return Err(format!("line {} of branch {} came again, or too late", line.number, line.branch));
        }
        if !lossy && line.number as usize != lines.len() {
            return Err(format!("line {} of branch {} came as its {}th", line.number, line.branch, lines.len()));
        }
        lines.push(line);
    }
    // Where there were two of it, one may have been ahead of the other.
    let two = record.went_on.contains(&seen.run);
    let late = seen.console.iter().enumerate().find(|(place, line)| is_late(&seen.console[..*place], line));
    late.filter(|_| !two).map_or(Ok(()), |(_, line)| Err(format!("{line:?} came after what a branch said later")))
}

/// Whether one of the branches of the chain that said this has been heard before with what it said after it.
fn is_late(before: &[LogLine], line: &LogLine) -> bool {
    let within = |branch: &Branch| branches_around(branch).any(|around| around == line.branch);
    before.iter().any(|earlier| within(&earlier.branch) && earlier.at_us > line.at_us)
}

/// Its parent, that one's parent, and so on.
fn branches_around(branch: &Branch) -> impl Iterator<Item = Branch> {
    std::iter::successors(branch.parent(), Branch::parent)
}

fn faultless_runs_succeed(plan: &Plan, seen: &Seen) -> Verdict {
    let program = &plan.chains[seen.program].program;
    let expected = expected(program, seen.run, plan.hops, plan.services());
    let open = expected.strained && !is_plain(program);
    if !plan.faultless() || seen.cancelled_at_us.is_some() || open {
        return Ok(());
    }
    if seen.partials.len() != expected.answers as usize {
        let (came, all) = (seen.partials.len(), expected.answers);
        return Err(format!("{came} answers came of {all}, and nothing was at fault"));
    }
    match (&seen.ends[0].0, expected.end) {
        (Outcome::Threw(why), _) if expected.stopped.is_some_and(|stopped| stopped != why.unknown) => {
            Err(format!("calls beside it stopped: {:?}, and it says {why:?}", expected.stopped))
        }
        (Outcome::Done(_), Ok(_)) => Ok(()),
        (Outcome::Threw(why), Err(name)) if why.name == name => Ok(()),
        // Of two that fail side by side, either may be the first.
        (Outcome::Threw(why), Err(name)) if is_its_own(&why.name) && is_its_own(&name) => Ok(()),
        (outcome, expected) => {
            Err(format!("ended as {outcome:?} where {expected:?} was right, and nothing was at fault"))
        }
    }
}
