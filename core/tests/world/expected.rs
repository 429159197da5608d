//! What a program comes to where nothing goes wrong and every call takes no time.

use std::collections::VecDeque;

use catena_core::{Answer, GuestCall, SubChain};
use catena_wire::{Exception, Fault, Outcome, Value, names};

use crate::{
    guest::{Guest, Op, Returned},
    services::{CAUGHT, SUB_CHAINS, Target, answer, kinds, number_of, oops, program_of, recovered},
};

/// How a program ends, and what is seen of it on the way.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) end: Result<Returned, String>,
    /// Intermediate answers that reach the user.
    pub(crate) answers: u32,
    /// It ran out of hops somewhere, or may have. What then comes of a program with sub-chains depends on whether these are composed.
    pub(crate) strained: bool,
    /// Whether calls stop at its end, so that nobody knows what they did; `None` if that depends on who is fast.
    pub(crate) stopped: Option<bool>,
}

pub(crate) fn expected(program: &[Op], run: u64, hops: u32, services: u8) -> Expected {
    let mut play = Play { services, answers: 0, strained: false, stopped: Some(false), uncertain: false, beside: 0 };
    let mut left = hops;
    let guest = Guest::begin(&Value::encode(&(run, 0_u64)));
    let end = play.chain(program, guest, None, &mut left, true);
    let end = end.map(|value| minicbor::decode(value.as_bytes()).expect("returned")).map_err(|why| why.name);
    Expected { end, answers: play.answers, strained: play.strained || play.uncertain, stopped: play.stopped }
}

struct Play {
    services: u8,
    answers: u32,
    strained: bool,
    stopped: Option<bool>,
    /// It may run out of hops, by how they are lent.
    uncertain: bool,
    /// Calls made beside others so far: of a race, all but one may be out for long.
    beside: usize,
}

type Ended = Result<Value, Exception>;

impl Play {
    /// One chain, or one branch (`of` the split with that number) to its end.
    fn chain(
        &mut self,
        program: &[Op],
        mut guest: Guest,
        of: Option<(u32, u16)>,
        left: &mut u32,
        heard: bool,
    ) -> Ended {
        let mut queue = VecDeque::new();
        let mut turn = match of {
            Some((call, index)) => guest.branch(program, call, index),
            None => guest.turn(program, None),
        };
        let end = loop {
            self.uncertain |= is_short(&turn.calls, *left, queue.len().max(self.beside));
            let (queued, before) = (queue.len(), self.beside);
            self.beside += turn.calls.len().saturating_sub(1);
            for call in turn.calls {
                if !self.spend(left) {
                    break;
                }
                queue.push_back(call);
            }
            if self.strained {
                self.stopped = match queue.len() > queued {
                    // What it begins as it ends goes on.
                    true if turn.end.is_none() => Some(true),
                    // What was begun beside others before may have been answered by now.
                    _ => (before == 0).then_some(false),
                };
                break Err(out_of_hops());
            }
            if let Some(end) = turn.end {
                break end;
            }
            if let Some(split) = turn.splits.pop() {
                let merged = self.branches(program, &guest, split.call, split.count, left, heard);
                turn = guest.turn(program, Some((split.call, Ok(merged))));
                continue;
            }
            let Some(call) = queue.pop_front() else {
                break Err(Exception::new(names::STALLED, Fault::Guest, ""));
            };
            let result = self.call(&call.service, &call.function, &call.params, left);
            turn = guest.turn(program, Some((call.call, result)));
        };
        self.answers += if heard { guest.emits() } else { 0 };
        end
    }

    fn spend(&mut self, left: &mut u32) -> bool {
        let enough = *left > 0;
        self.strained |= !enough;
        *left = left.saturating_sub(1);
        enough
    }

    fn branches(
        &mut self,
        program: &[Op],
        parent: &Guest,
        call: u32,
        count: u32,
        left: &mut u32,
        heard: bool,
    ) -> Value {
        self.strained |= *left <= count;
        *left = left.saturating_sub(1);
        let share = *left / count.max(1);
        *left -= share * count;
        let outcomes: Vec<Outcome> = (0..count)
            .map(|index| {
                let mut mine = share;
                let end = self.chain(program, parent.clone(), Some((call, index as u16)), &mut mine, heard);
                *left += mine;
                end.into()
            })
            .collect();
        Value::of_outcomes(&outcomes)
    }

    fn call(&mut self, service: &str, function: &str, params: &Value, left: &mut u32) -> Ended {
        let number = number_of(service);
        match answer(number, function, params, self.services)? {
            Answer::Value(value) => Ok(value),
            Answer::Nothing => Ok(Value::null()),
            Answer::Chain(SubChain { input, catch, .. }) => {
                let program = program_of(number, function, self.services).ok_or_else(oops)?;
                let end = self.chain(&program, Guest::begin(&input), None, left, false);
                match (end, catch) {
                    (Err(why), Some(_)) => {
                        self.spend(left);
                        Ok(Value::encode(&recovered(&why.name)))
                    }
                    (end, _) => end,
                }
            }
        }
    }
}

/// Whether those of these calls that will be chains may be lent too few hops, or too few may be left while they are out.
fn is_short(calls: &[GuestCall], left: u32, out: usize) -> bool {
    if !calls.iter().any(|call| kinds().chaining.contains(&call.function)) {
        return false;
    }
    // Of a service that is still to be looked up nobody knows that its function will not be a chain.
    let out = (calls.len() + out) as u32;
    let left = left.saturating_sub(calls.len() as u32);
    let parts = if out == 1 { 1 } else { out + 1 };
    (left - left / 2) / parts < NESTED_HOPS || (out > 1 && left / 2 < OTHERS_HOPS)
}

/// What the largest of the services' chains takes, when none of its sub-chains joins it.
const NESTED_HOPS: u32 = 14;
/// What the calls of a program take that it makes while others are out.
const OTHERS_HOPS: u32 = 12;

fn out_of_hops() -> Exception {
    Exception::new(names::HOP_BUDGET_EXCEEDED, Fault::Guest, "")
}

/// Whether it calls a function that answers for what its sub-chain throws: which can do so only while its node can be reached.
pub(crate) fn is_caught_elsewhere(program: &[Op]) -> bool {
    let caught = |target: &Target| target.function == CAUGHT;
    program.iter().any(|op| match op {
        Op::Split(branches, _) => branches.iter().any(|branch| is_caught_elsewhere(branch)),
        Op::Call(target) | Op::Try(target) | Op::Hold(target) | Op::Start(target) => caught(target),
        Op::All(targets) | Op::Race(targets) => targets.iter().any(caught),
        _ => false,
    })
}

/// Whether nothing of what becomes of it depends on whether its sub-chains are composed, and on how its branches share its hops.
pub(crate) fn is_plain(program: &[Op]) -> bool {
    let chains = |target: &Target| SUB_CHAINS.contains(&target.function);
    !program.iter().any(|op| match op {
        Op::Split(..) | Op::TrySplit(_) => true,
        Op::Call(target) | Op::Try(target) | Op::Hold(target) | Op::Start(target) => chains(target),
        Op::All(targets) | Op::Race(targets) => targets.iter().any(chains),
        _ => false,
    })
}
