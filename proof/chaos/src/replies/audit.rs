//! What the reader of a reply set was told, held against what its servers sent.
//!
//! | the set | what was sent |
//! | --- | --- |
//! | complete | every reply of the tree, and each has come, once |
//! | exception | each reply has come once, or a branch of which it is, or which led to it, is named as missing |
//! | failure, or its reader left | what has come was sent, once, and nothing is missing before it in its row |
//! | any | nothing came after the end; after its reader had left, nothing was sent for long |

use std::collections::{BTreeMap, BTreeSet};

use catena::{Ended, Missing};

use super::{
    Branch,
    asking::{Asked, Ending, shown},
    serving::target,
};
use crate::{
    audit::STRAGGLING_MS_MAX,
    chains::TIMEOUT,
    kinds::Kind,
    ledger::{Effects, Run},
    node,
    outages::{Outage, Outages},
    tally::Tally,
    trials::Trial,
};

/// The rights of a tree by their branches: who has each, and which replies are lost with it.
type Rights<'t> = BTreeMap<String, (&'t Branch, BTreeSet<usize>)>;

fn rights<'t>(branch: &'t Branch, name: String, all: &mut Rights<'t>) -> BTreeSet<usize> {
    let mut with_it = replies_passed_by(branch);
    for (number, child) in (1..).zip(&branch.delegated) {
        // A holder that is lost may have delegated its right without anybody learning of it.
        with_it.extend(rights(child, format!("{name}.{number}"), all));
    }
    all.insert(name, (branch, with_it.clone()));
    with_it
}

/// Replies sent under the branch's own right: its own, and all that it passes on.
fn replies_passed_by(branch: &Branch) -> BTreeSet<usize> {
    let own = branch.rows.iter().flat_map(|(first, count)| *first..first + count);
    own.chain(branch.passed.iter().flat_map(all_replies)).collect()
}

fn all_replies(branch: &Branch) -> BTreeSet<usize> {
    let below = branch.delegated.iter().flat_map(all_replies);
    replies_passed_by(branch).into_iter().chain(below).collect()
}

fn rows(branch: &Branch) -> Vec<(usize, usize)> {
    let below = branch.delegated.iter().chain(&branch.passed).flat_map(rows);
    branch.rows.iter().copied().chain(below).collect()
}

/// The nodes of the server that sends this reply and, before it, of those that asked it, each of the next: whoever holds a delegated right replies to the
/// server that asked for it, and hears from that server when to stop.
fn way_to(branch: &Branch, index: usize) -> Option<Vec<usize>> {
    let is_own = branch.rows.iter().any(|(first, count)| (*first..first + count).contains(&index));
    let asked = if is_own { Some(Vec::new()) } else { branch.passed.iter().find_map(|child| way_to(child, index)) };
    match asked {
        Some(mut way) => {
            way.splice(..0, node::number_of(&branch.service));
            Some(way)
        }
        None => branch.delegated.iter().find_map(|child| way_to(child, index)),
    }
}

/// The nodes of all servers that asked others.
fn parents(branch: &Branch) -> BTreeSet<usize> {
    let children = || branch.delegated.iter().chain(&branch.passed);
    let own = node::number_of(&branch.service).filter(|_| children().next().is_some());
    children().flat_map(parents).chain(own).collect()
}

impl Trial for Asked {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn hold(&self, effects: &Effects, outages: &Outages) -> (Tally, Option<String>) {
        let sent: BTreeMap<usize, &[Run]> = effects
            .range((self.trial, 0)..=(self.trial, usize::MAX))
            .map(|((_, index), runs)| (*index, runs.as_slice()))
            .collect();
        let counts = |is_it: bool| usize::from(is_it);
        let missing = self.missing();
        let tally = Tally {
            chains: 1,
            answered: counts(matches!(self.ending, Ending::Told(Ended::Complete, _))),
            failed: counts(matches!(self.ending, Ending::Told(Ended::Exception, _) | Ending::Refused)),
            unknown: counts(matches!(self.ending, Ending::Told(Ended::Failure, _) | Ending::Dropped)),
            hung: counts(matches!(self.ending, Ending::Hung)),
            doubled: self.came.len() - self.came_once().len(),
            lost: self.groundless(&sent) + self.out_of_order() + self.unaccounted(missing) + self.after_end,
            misnamed: self.misnamed(missing),
            ran_on: counts(self.ran_on(&sent, outages)),
            ..Tally::default()
        };
        let finding = (!tally.is_good()).then(|| self.describe(&tally, &sent, outages));
        (tally, finding)
    }
}

impl Asked {
    fn missing(&self) -> &[Missing] {
        match &self.ending {
            Ending::Told(_, missing) => missing,
            _ => &[],
        }
    }

    fn came_once(&self) -> BTreeSet<usize> {
        self.came.iter().copied().collect()
    }

    /// Replies that nobody sent, or only after the end.
    fn groundless(&self, sent: &BTreeMap<usize, &[Run]>) -> usize {
        let planned = all_replies(&self.tree);
        let is_sent =
            |index: &usize| sent.get(index).is_some_and(|runs| runs.iter().any(|run| run.at_ms <= self.at_ms));
        self.came_once().iter().filter(|index| !planned.contains(*index) || !is_sent(index)).count()
    }

    /// Rows whose replies came out of order, or with a gap before one that came.
    fn out_of_order(&self) -> usize {
        let is_wrong = |(first, count): &(usize, usize)| {
            let (mut seen, row) = (BTreeSet::new(), *first..first + count);
            let of_row: Vec<_> =
                self.came.iter().filter(|index| row.contains(index) && seen.insert(**index)).copied().collect();
            !of_row.iter().copied().eq(row.take(of_row.len()))
        };
        rows(&self.tree).iter().filter(|row| is_wrong(row)).count()
    }

    /// Replies that did not come, and that no missing branch accounts for.
    fn unaccounted(&self, missing: &[Missing]) -> usize {
        if !matches!(self.ending, Ending::Told(Ended::Complete | Ended::Exception, _)) {
            return 0;
        }
        let mut all = Rights::new();
        let planned = rights(&self.tree, String::new(), &mut all);
        let named = missing.iter().filter_map(|it| all.get(&it.branch.to_string()));
        let excused: BTreeSet<usize> = named.flat_map(|(_, with_it)| with_it).copied().collect();
        let came = self.came_once();
        planned.iter().filter(|index| !came.contains(*index) && !excused.contains(*index)).count()
    }

    /// Branches named as missing that do not exist or have another holder; and an ending that contradicts what is named.
    fn misnamed(&self, missing: &[Missing]) -> usize {
        let mut all = Rights::new();
        rights(&self.tree, String::new(), &mut all);
        let is_right = |it: &&Missing| {
            let found = all.get(&it.branch.to_string());
            found.is_some_and(|(branch, _)| it.target.is_empty() || it.target == target(branch))
        };
        let wrong = missing.iter().filter(|it| !is_right(it)).count();
        let agrees = match &self.ending {
            Ending::Told(Ended::Complete, missing) => missing.is_empty() && self.why.is_none(),
            Ending::Told(Ended::Exception, missing) => !missing.is_empty() && self.why.is_some(),
            Ending::Told(Ended::Failure, _) | Ending::Refused => self.why.is_some(),
            Ending::Dropped | Ending::Hung => true,
        };
        wrong + usize::from(!agrees)
    }

    /// Whether a reply was sent long after the reader had left. A server that nobody can tell, since those that knew of it have died, or were not there while it
    /// was, may go on until the call's time is out, or until both have been there for long enough.
    fn ran_on(&self, sent: &BTreeMap<usize, &[Run]>, outages: &Outages) -> bool {
        if !matches!(self.ending, Ending::Dropped) {
            return false;
        }
        let told_ms = self.at_ms + 2 * STRAGGLING_MS_MAX;
        let parents = parents(&self.tree);
        let late = |index: usize, run: &Run| {
            // A stopped server can be told only when it resumes: by then those that knew of it may have died.
            let asleep_ms = outages.gone_ms(run.node, self.at_ms, run.at_ms);
            let deadline_ms = self.times_out_ms(parents.iter().copied().chain([run.node]).collect(), outages);
            let is_orphan = parents.iter().any(|node| outages.died(Some(*node), self.began_ms, told_ms + asleep_ms));
            let since_ms = if is_orphan { deadline_ms } else { self.at_ms };
            let hardly_met = |pair: &[usize]| outages.awake_ms(pair, self.at_ms, run.at_ms) <= STRAGGLING_MS_MAX;
            let untold =
                run.at_ms <= deadline_ms && way_to(&self.tree, index).is_some_and(|way| way.windows(2).any(hardly_met));
            !untold && !outages.excuse(run.node, since_ms, run.at_ms, STRAGGLING_MS_MAX)
        };
        sent.iter().any(|(index, runs)| runs.iter().any(|run| late(*index, run)))
    }

    /// When the time of this call, or of one that came of it, is out. A call says how much of its time is left, and that does not shrink while the call
    /// waits at a stopped node.
    fn times_out_ms(&self, waited_at: BTreeSet<usize>, outages: &Outages) -> u64 {
        let at_ms = self.began_ms + u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        at_ms + waited_at.into_iter().map(|node| outages.gone_ms(node, self.began_ms, at_ms)).sum::<u64>()
    }

    fn describe(&self, tally: &Tally, sent: &BTreeMap<usize, &[Run]>, outages: &Outages) -> String {
        let Tally { doubled, lost, misnamed, hung, ran_on, .. } = tally;
        let after = |ms: u64| i128::from(ms) - i128::from(self.at_ms);
        let last_ms = sent.values().copied().flatten().map(|run| run.at_ms).max().unwrap_or_default().max(self.at_ms);
        let sent: BTreeMap<_, Vec<_>> = sent
            .iter()
            .map(|(index, runs)| (index, runs.iter().map(|run| (run.node, after(run.at_ms))).collect()))
            .collect();
        let fault = |it: &Outage| {
            format!("{} n{} from {} to {} ms", it.fault.name(), it.node, after(it.from_ms), after(it.to_ms))
        };
        let faults: Vec<_> = outages.between(self.began_ms, last_ms).map(fault).collect();
        let ending = match &self.ending {
            Ending::Told(ended, missing) => format!("{ended:?}, missing {:?}", shown(missing)),
            other => format!("{other:?}"),
        };
        format!(
            "call {} ({}): {doubled} doubled, {lost} lost, {misnamed} misnamed, {hung} hung, {ran_on} ran on\n    \
             began at {} ms, ended: {ending}, {:?}\n    replies: {:?}\n    sent: {sent:?}\n    faults meanwhile: {faults:?}\n    its tree: {}",
            self.trial,
            self.kind.name(),
            after(self.began_ms),
            self.why,
            self.came,
            serde_json::to_string(&self.tree).unwrap_or_default()
        )
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
