//! The course of a plan: its calls as their chain numbers them, each with what comes before it; and what an ending says of each.

use std::collections::BTreeSet;

use catena::{Exception, exceptions};

use crate::{
    chains::Ending,
    plan::{Function, Plan, Step},
};

/// What is done at one place of a course.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Effect { index: usize, function: Function },
    Sub,
    Split,
    Throw,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) what: What,
    /// The service called; empty where none is.
    pub(crate) service: String,
    /// The branch as services and exceptions name it: `.1.2`, or empty for the whole chain.
    pub(crate) branch: String,
    pub(crate) step: u32,
    /// All places that were passed before this call was made.
    pub(crate) before: BTreeSet<usize>,
    /// The call whose answer was the sub-chain that makes this call, if that sub-chain runs on its own.
    pub(crate) detached: Option<usize>,
    /// Made beside others: if one of those fails, nobody waits for this one any more.
    pub(crate) beside: bool,
    /// Made by the chain's own function, which the origin hears.
    pub(crate) own: bool,
}

/// What an ending says of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It took place.
    Done,
    /// It may have, or may still.
    Perhaps,
    /// It did not, and never will.
    Never,
}

/// Exceptions that the origin makes itself, of a chain that it has only heard of: they name no branch.
const TOLD_BY_ORIGIN: [&str; 3] = [exceptions::CHAIN_LOST, exceptions::CANCELLED, exceptions::DEADLINE_EXCEEDED];

/// Calls by place; [`Call::before`] has the same places.
#[derive(Debug, Default)]
pub(crate) struct Course(pub(crate) Vec<Call>);

/// What counts its own steps: a chain, or one branch of it.
#[derive(Clone, Default)]
struct Lane {
    branch: String,
    step: u32,
    splits: usize,
    detached: Option<usize>,
    /// The innermost call that was answered with a sub-chain.
    sub: Option<usize>,
    beside: bool,
    composes: bool,
}

impl Course {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut course = Self::default();
        let mut lane = Lane { composes: !plan.detached, ..Lane::default() };
        course.row(&plan.input.steps, &mut lane, BTreeSet::new());
        course
    }

    /// One after the other. Returns the places that were passed when all is done.
    fn row(&mut self, steps: &[Step], lane: &mut Lane, mut passed: BTreeSet<usize>) -> BTreeSet<usize> {
        for step in steps {
            passed = match step {
                Step::Beside(calls) => self.beside(calls, lane, &passed),
                Step::Split { branches, .. } => self.split(branches, lane, passed),
                Step::Throw => self.throw(lane, passed),
                call => self.call(call, lane, passed, lane.composes),
            };
        }
        passed
    }

    /// One call: of an effect, or of a function that answers with a chain.
    fn call(&mut self, step: &Step, lane: &mut Lane, mut passed: BTreeSet<usize>, composes: bool) -> BTreeSet<usize> {
        lane.step += 1;
        match step {
            Step::Effect { service, function, effect } => {
                let what = What::Effect { index: effect.index, function: *function };
                let place = self.place(what, service, lane, &passed);
                passed.insert(place);
                passed
            }
            Step::Sub { service, steps } => {
                let place = self.place(What::Sub, service, lane, &passed);
                passed.insert(place);
                if composes {
                    let outer = lane.sub.replace(place);
                    let passed = self.row(steps, lane, passed);
                    lane.sub = outer;
                    return passed;
                }
                // A chain of its own, with its own numbers; what it calls joins it.
                let mut own = Lane {
                    detached: lane.detached.or(Some(place)),
                    sub: Some(place),
                    beside: lane.beside,
                    composes: true,
                    ..Lane::default()
                };
                self.row(steps, &mut own, passed)
            }
            Step::Beside(_) | Step::Split { .. } | Step::Throw => passed,
        }
    }

    fn beside(&mut self, calls: &[Step], lane: &mut Lane, passed: &BTreeSet<usize>) -> BTreeSet<usize> {
        let outer = std::mem::replace(&mut lane.beside, true);
        // A chain that waits for several calls stays where it is, and sub-chains cannot join it.
        let ends: BTreeSet<_> = calls.iter().flat_map(|call| self.call(call, lane, passed.clone(), false)).collect();
        lane.beside = outer;
        ends
    }

    fn split(&mut self, branches: &[Vec<Step>], lane: &mut Lane, mut passed: BTreeSet<usize>) -> BTreeSet<usize> {
        lane.step += 1;
        passed.insert(self.place(What::Split, "", lane, &passed));
        let mut ends = passed.clone();
        for steps in branches {
            lane.splits += 1;
            let branch = format!("{}.{}", lane.branch, lane.splits);
            let mut forked = Lane { branch, splits: 0, ..lane.clone() };
            ends.extend(self.row(steps, &mut forked, passed.clone()));
        }
        ends
    }

    /// An exception of a sub-chain names the call that it answers.
    fn throw(&mut self, lane: &Lane, mut passed: BTreeSet<usize>) -> BTreeSet<usize> {
        let place = self.place(What::Throw, "", lane, &passed);
        if let Some(named) = lane.detached.or(lane.sub) {
            let (branch, step) = (self.0[named].branch.clone(), self.0[named].step);
            self.0[place] = Call { branch, step, ..self.0[place].clone() };
        }
        passed.insert(place);
        passed
    }

    fn place(&mut self, what: What, service: &str, lane: &Lane, passed: &BTreeSet<usize>) -> usize {
        self.0.push(Call {
            what,
            service: service.to_owned(),
            branch: lane.branch.clone(),
            step: lane.step,
            before: passed.clone(),
            detached: lane.detached,
            beside: lane.beside,
            own: lane.sub.is_none(),
        });
        self.0.len() - 1
    }

    /// What this ending says of the effect at this place: certain only if all places that the exception may mean say the same.
    pub(crate) fn told(&self, ending: &Ending, place: usize) -> Told {
        let told = match ending {
            Ending::Answered(_) => return Told::Done,
            Ending::Failed(why) if why.step == 0 => return Told::Never,
            Ending::Failed(why) => {
                self.meant(why).into_iter().map(|meant| self.told_by_failure(why, meant, place)).collect()
            }
            Ending::Unknown(why) => {
                self.meant(why).into_iter().map(|meant| self.told_by_uncertainty(meant, place)).collect()
            }
            Ending::Hung => Vec::new(),
        };
        match told.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => *first,
            _ => Told::Perhaps,
        }
    }

    /// What came before the failed call took place; that call and what comes after it did not. How far branches and calls side by side
    /// got, a failure does not say.
    fn told_by_failure(&self, why: &Exception, failed: usize, place: usize) -> Told {
        let after = self.0[place].before.contains(&failed);
        let within = self.0[failed].what == What::Sub && self.0[place].detached == Some(failed);
        match () {
            () if self.0[failed].before.contains(&place) => Told::Done,
            // An exception without a target is the function's own: its last step was done.
            () if place == failed && why.target.is_none() => Told::Done,
            () if place == failed || after && !within => Told::Never,
            () => Told::Perhaps,
        }
    }

    /// After an unknown outcome, only what came before the named call is certain.
    fn told_by_uncertainty(&self, named: usize, place: usize) -> Told {
        if self.0[named].before.contains(&place) { Told::Done } else { Told::Perhaps }
    }

    /// The places that an exception may mean: exactly one, unless it does not name its place as it should.
    fn meant(&self, why: &Exception) -> Vec<usize> {
        self.named(why).map_or_else(|| self.of_any_branch(why), |named| vec![named])
    }

    /// The place of the exception's step and branch. The calls of a sub-chain on its own have step numbers of their own, which nobody
    /// outside of it learns.
    fn named(&self, why: &Exception) -> Option<usize> {
        let thrown = self.0.iter().position(|call| call.what == What::Throw).filter(|_| why.message == "on purpose");
        let branch = why.branch.to_string();
        thrown
            .or_else(|| self.of_any_branch(why).into_iter().find(|place| self.0[*place].branch == branch))
            .filter(|_| !TOLD_BY_ORIGIN.contains(&why.name.as_str()))
    }

    fn of_any_branch(&self, why: &Exception) -> Vec<usize> {
        let is_it = |place: &usize| {
            let call = &self.0[*place];
            call.what != What::Throw && call.detached.is_none() && call.step == why.step && self.is_target(*place, why)
        };
        (0..self.0.len()).filter(is_it).collect()
    }

    /// Whether the exception's target is the call at this place. A failure within a sub-chain on its own is reported for the call that
    /// the sub-chain answers.
    fn is_target(&self, place: usize, why: &Exception) -> bool {
        let Call { what, service, .. } = &self.0[place];
        let Some((target, function)) = why.target.as_deref().and_then(|target| target.split_once('/')) else {
            return true;
        };
        match what {
            // An unknown outcome names the step, and, instead of the function, whose chain threw.
            _ if why.unknown && function.is_empty() => true,
            What::Effect { function: planned, .. } => target == service && function == planned.name(),
            What::Sub if self.0.iter().any(|call| call.detached == Some(place)) => true,
            What::Sub => target == service && ["sub", ""].contains(&function),
            What::Split => function == "split",
            What::Throw => false,
        }
    }

    /// Whether the exception names no call of this course, or another than it says was called.
    pub(crate) fn is_misnamed(&self, ending: &Ending) -> bool {
        let (Ending::Failed(why) | Ending::Unknown(why)) = ending else { return false };
        match self.named(why) {
            Some(named) => matches!(ending, Ending::Failed(_)) && self.0[named].step != why.step,
            None => {
                why.step != 0 && (!TOLD_BY_ORIGIN.contains(&why.name.as_str()) || self.of_any_branch(why).is_empty())
            }
        }
    }

    /// Gives the calls of a row the step numbers that they really had: a call that finds its service moved away is made again as another step. `seen` gives
    /// the step of the effect at a place. Numbers only rise; the first call without one may be the call that the ending names, or whose host fell silent.
    pub(crate) fn follow(&mut self, seen: impl Fn(usize) -> Option<u32>, ending: &Ending) {
        let named = match ending {
            Ending::Failed(why) | Ending::Unknown(why) if why.target.is_some() => Some(why),
            Ending::Unknown(why) if TOLD_BY_ORIGIN.contains(&why.name.as_str()) => Some(why),
            _ => None,
        };
        let (mut next, mut unseen) = (1, 0);
        for place in 0..self.0.len() {
            let step = seen(place).or_else(|| {
                unseen += 1;
                let why = named.filter(|_| unseen == 1)?;
                self.is_target(place, why).then_some(why.step)
            });
            self.0[place].step = step.map_or(next, |step| step.max(next));
            next = self.0[place].step + 1;
        }
    }

    pub(crate) fn effects(&self) -> impl Iterator<Item = (usize, usize, Function)> {
        self.0.iter().enumerate().filter_map(|(place, call)| match call.what {
            What::Effect { index, function } => Some((place, index, function)),
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
