//! What the origin was told, held against what took place.
//!
//! | ending | what took place |
//! | --- | --- |
//! | answered | every effect, before the answer, and every intermediate answer came |
//! | failed before its effect at step *k* | all before that step, and nothing of it or after it; branches and calls side by side got to some place each |
//! | unknown after step *k* | all before that step, and perhaps more |
//! | any | each effect at most once (repeatable ones: at least), under its own key; none without all before it, none before those, and none long after the end |

use std::collections::BTreeMap;

use catena::exceptions;

use crate::{
    chains::{Ended, Ending, TIMEOUT},
    course::{Call, Course, Told, What},
    kinds::Kind,
    ledger::{Effects, Run},
    node,
    outages::{Outage, Outages},
    plan::Function,
    tally::Tally,
    trials::Trial,
};

/// How long after the end of a chain a request to stop may take to reach a node, so that its rest goes on there. Outages of the node do not count.
pub(crate) const STRAGGLING_MS_MAX: u64 = 1_500;

impl Trial for Ended {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn hold(&self, effects: &Effects, outages: &Outages) -> (Tally, Option<String>) {
        let mut course = Course::of(&self.plan);
        let runs = runs_of(self.chain, &course, effects);
        if self.kind == Kind::Moving {
            let seen = |place| runs.get(&place).and_then(|runs| runs.first()?.key.as_ref()).map(|(.., step)| *step);
            course.follow(seen, &self.ending);
        }
        let audit = Audit { runs, ended: self, course, outages };
        let tally = audit.tally();
        let finding = (!tally.is_good()).then(|| audit.describe(&tally));
        (tally, finding)
    }
}

/// The effects of a chain by place in its course; effects that the plan does not have are put at places beyond it.
fn runs_of(chain: usize, course: &Course, all: &Effects) -> BTreeMap<usize, Vec<Run>> {
    let places: BTreeMap<_, _> = course.effects().map(|(place, index, _)| (index, place)).collect();
    let of_chain = all.range((chain, 0)..=(chain, usize::MAX));
    let place = |index| places.get(index).copied().unwrap_or(course.0.len() + index);
    let mut runs: BTreeMap<_, _> = of_chain.map(|((_, index), runs)| (place(index), runs.clone())).collect();
    runs.values_mut().for_each(|runs| runs.sort_unstable_by_key(|run| run.at_ms));
    runs
}

struct Audit<'a> {
    ended: &'a Ended,
    course: Course,
    /// By place, each in order of time.
    runs: BTreeMap<usize, Vec<Run>>,
    outages: &'a Outages,
}

impl Audit<'_> {
    fn tally(&self) -> Tally {
        let ending = &self.ended.ending;
        let counts = |is_it: bool| usize::from(is_it);
        Tally {
            chains: 1,
            answered: counts(matches!(ending, Ending::Answered(_))),
            failed: counts(matches!(ending, Ending::Failed(_))),
            unknown: counts(matches!(ending, Ending::Unknown(_))),
            hung: counts(matches!(ending, Ending::Hung)),
            repeated: counts(self.of_function(Function::Repeat).any(|runs| runs.len() > 1)),
            doubled: self.doubled() + self.answered_twice(),
            lost: self.effects(|place, _| self.is_otherwise_than_told(place) || self.is_out_of_order(place))
                + self.miscounted()
                + self.answers_lost(),
            misnamed: self.misnamed() + counts(self.course.is_misnamed(ending)),
            ran_on: counts(self.effects(|place, _| self.ran_on(place)) > 0),
            wrong: 0,
        }
    }

    fn effects(&self, is_it: impl Fn(usize, Function) -> bool) -> usize {
        self.course.effects().filter(|(place, _, function)| is_it(*place, *function)).count()
    }

    fn runs(&self, place: usize) -> &[Run] {
        self.runs.get(&place).map_or(&[], Vec::as_slice)
    }

    fn of_function(&self, of: Function) -> impl Iterator<Item = &[Run]> {
        self.course.effects().filter(move |(_, _, function)| *function == of).map(|(place, ..)| self.runs(place))
    }

    fn doubled(&self) -> usize {
        self.effects(|place, function| function != Function::Repeat && self.runs(place).len() > 1)
    }

    fn is_otherwise_than_told(&self, place: usize) -> bool {
        let first = self.runs(place).first();
        match self.course.told(&self.ended.ending, place) {
            Told::Done => first.is_none_or(|first| first.at_ms > self.ended.at_ms),
            Told::Never => first.is_some(),
            Told::Perhaps => false,
        }
    }

    /// Whether an effect took place before one that precedes it in the course: never right, however the chain ended.
    fn is_out_of_order(&self, place: usize) -> bool {
        let Some(first) = self.runs(place).first() else { return false };
        let is_effect = |before: &usize| matches!(self.course.0[*before].what, What::Effect { .. });
        let mut before = self.course.0[place].before.iter().copied().filter(is_effect);
        before.any(|before| self.runs(before).first().is_none_or(|earlier| earlier.at_ms > first.at_ms))
    }

    /// How far the function's own count is off, if it came; plus effects that are not planned, or for which no hop was left.
    fn miscounted(&self) -> usize {
        let last = self.course.0.len().saturating_sub(usize::from(self.ended.plan.short_of_hops));
        let beyond = self.runs.range(last..).count();
        match self.ended.ending {
            Ending::Answered(count) => beyond + self.effects(|_, _| true).abs_diff(count),
            _ => beyond,
        }
    }

    /// Effects recorded under a key other than that of their step.
    fn misnamed(&self) -> usize {
        let is_own = |call: &Call, run: &Run| {
            run.key.as_ref().is_some_and(|(chain, branch, step)| {
                (branch, *step) == (&call.branch, call.step) && (chain == &self.ended.id) == call.detached.is_none()
            })
        };
        self.effects(|place, _| !self.runs(place).iter().all(|run| is_own(&self.course.0[place], run)))
    }

    fn answered_twice(&self) -> usize {
        let mut answers = self.ended.answers.clone();
        answers.sort_unstable();
        answers.windows(2).filter(|two| two[0] == two[1]).count()
    }

    /// Intermediate answers without their effect or out of order; of a chain that was answered also those that are missing.
    fn answers_lost(&self) -> usize {
        if !self.ended.plan.input.emits {
            return self.ended.answers.len();
        }
        let own: BTreeMap<_, _> = self
            .course
            .effects()
            .filter(|(place, ..)| self.course.0[*place].own)
            .map(|(p, index, _)| (index, p))
            .collect();
        let groundless =
            self.ended.answers.iter().filter(|index| own.get(index).is_none_or(|place| self.runs(*place).is_empty()));
        let late = self.ended.answers.iter().enumerate().filter(|(at, index)| {
            let before = own.get(index).map(|place| &self.course.0[*place].before);
            let branch = |index| own.get(index).map(|place| &self.course.0[*place].branch);
            // Answers are ordered within a branch, not between branches.
            let after = self.ended.answers[at + 1..].iter().filter(|later| branch(later) == branch(index));
            after.filter_map(|later| own.get(later)).any(|later| before.is_some_and(|before| before.contains(later)))
        });
        let missing = match self.ended.ending {
            Ending::Answered(_) => own.keys().filter(|index| !self.ended.answers.contains(index)).count(),
            _ => 0,
        };
        groundless.count() + late.count() + missing
    }

    /// Whether the effect took place long after the chain had ended, as far as its nodes could know of the end.
    fn ran_on(&self, place: usize) -> bool {
        let late = |run: &&Run| {
            let since_ms = self.stops_at_ms(place, run);
            !self.is_untold(place, run) && !self.outages.excuse(run.node, since_ms, run.at_ms, STRAGGLING_MS_MAX)
        };
        self.runs(place).iter().any(|run| late(&run))
    }

    /// From when on the caller of this effect is being stopped.
    fn stops_at_ms(&self, place: usize, run: &Run) -> u64 {
        let Ended { at_ms, ending, .. } = self.ended;
        let deadline_ms = self.deadline_ms();
        let call = &self.course.0[place];
        let cancelled = matches!(ending, Ending::Unknown(why) if why.name == exceptions::CANCELLED);
        // Calls started side by side are still made when nobody awaits them any more, as on a single machine.
        let unheard = call.beside && !cancelled;
        match unheard || self.is_orphan(call, deadline_ms) {
            true => (deadline_ms + self.uncounted_ms(run)).max(*at_ms),
            false => *at_ms,
        }
    }

    /// Milliseconds for which the budget of this effect's chain did not shrink: a hop to a stopped node waits in a socket, and no
    /// node's clock measures that.
    fn uncounted_ms(&self, run: &Run) -> u64 {
        let chain = |of: &Run| of.key.as_ref().map(|(chain, ..)| chain.clone());
        let of_chain =
            self.runs.values().flatten().filter(|other| other.at_ms <= run.at_ms && chain(other) == chain(run));
        let mut way: Vec<(u64, usize)> = of_chain.map(|run| (run.at_ms, run.node)).collect();
        way.sort_unstable();
        let begun = [(self.ended.began_ms, run.node)].into_iter();
        let hops = begun.chain(way.iter().copied()).zip(&way);
        hops.map(|((from_ms, _), (to_ms, node))| self.outages.gone_ms(*node, from_ms, *to_ms)).sum()
    }

    /// Whether the call belongs to a sub-chain on its own whose creator may have died: then nobody can stop it. It is dropped when its heartbeats have failed
    /// for long enough without a pause. A failed dial may count as a pause, and such dials are frequent here: so only its budget is sure to stop it.
    fn is_orphan(&self, call: &Call, deadline_ms: u64) -> bool {
        self.creator(call).is_some_and(|creator| self.outages.died(creator, self.ended.began_ms, deadline_ms))
    }

    /// Whether the call belongs to a sub-chain on its own whose creator, which alone can stop it, is itself stopped: it does so when it resumes.
    fn is_untold(&self, place: usize, run: &Run) -> bool {
        let told_ms = self.ended.at_ms + STRAGGLING_MS_MAX;
        let creator = self.creator(&self.course.0[place]);
        run.at_ms <= self.deadline_ms() && creator.is_some_and(|it| self.outages.gone_since(it, told_ms, run.at_ms))
    }

    /// The creator of the sub-chain on its own that made this call, if one did; the inner option: its node, if it is known.
    fn creator(&self, call: &Call) -> Option<Option<usize>> {
        call.detached.map(|sub| node::number_of(&self.course.0[sub].service))
    }

    fn deadline_ms(&self) -> u64 {
        self.ended.began_ms.saturating_add(TIMEOUT.as_millis().try_into().unwrap_or(u64::MAX))
    }

    fn describe(&self, tally: &Tally) -> String {
        let Ended { chain, kind, plan, ending, began_ms, at_ms, id, answers } = self.ended;
        let Tally { doubled, lost, misnamed, hung, ran_on, .. } = tally;
        let after = |ms: u64| i128::from(ms) - i128::from(*at_ms);
        let twin = |run: &Run| if run.by_twin { "'s twin" } else { "" };
        let run = |run: &Run| format!("{} ms n{}{} {:?}", after(run.at_ms), run.node, twin(run), run.key);
        let runs: BTreeMap<_, Vec<_>> =
            self.runs.iter().map(|(place, runs)| (place, runs.iter().map(run).collect())).collect();
        let last_ms = self.runs.values().flatten().map(|run| run.at_ms).max().unwrap_or_default();
        let fault = |it: &Outage| {
            format!("{} n{} from {} to {} ms", it.fault.name(), it.node, after(it.from_ms), after(it.to_ms))
        };
        let faults: Vec<_> = self.outages.between(*began_ms, last_ms.max(*at_ms)).map(fault).collect();
        format!(
            "chain {chain} ({}): {doubled} doubled, {lost} lost, {misnamed} misnamed, {hung} hung, {ran_on} ran on\n    \
             {id} ended: {ending:?}\n    intermediate answers: {answers:?}\n    effects by place: {runs:?}\n    \
             faults meanwhile: {faults:?}\n    its plan: {}",
            kind.name(),
            serde_json::to_string(&plan.input).unwrap_or_default()
        )
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
