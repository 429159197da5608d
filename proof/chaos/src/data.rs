//! Common to all trials with data: values are checked when they arrive; whether there was a reason for a failure is checked afterwards.

use catena::Exception;

use crate::{
    chains::{PATIENCE, TIMEOUT},
    kinds::Kind,
    ledger::{Effects, now_ms},
    outages::{Outage, Outages},
    patience::within,
    tally::Tally,
    trials::Trial,
};

/// How long after a fault of a node its consequences may be felt: until its links are there again, and what waited in them has passed.
const AFTERMATH_MS: u64 = 5_000;
/// How long the memory of a process that has ended may be read by importers that map it: until they learn that the link has ended.
const DEAD_MEMORY_MS_MAX: u64 = 3_000;

/// What was seen on the way.
#[derive(Default)]
pub(crate) struct Seen {
    /// Values that are other than they must be.
    pub(crate) wrong: Vec<String>,
    /// Exceptions that do not name who is at fault.
    pub(crate) misnamed: Vec<String>,
    /// A lock was held by others for as long as was waited for it, and none of them is known to have lost it.
    pub(crate) is_blocked: bool,
    /// Reads of a life: the owner's number, when that life began in microseconds, and when it was read in milliseconds.
    pub(crate) lives: Vec<(usize, u64, u64)>,
}

impl Seen {
    pub(crate) fn compare(&mut self, what: &str, expected: &[u8], got: &[u8]) {
        self.wrong.extend(crate::bytes::difference(expected, got).map(|how| format!("{what}: {how}")));
    }
}

enum Outcome {
    Done,
    Failed(Exception),
    Hung,
}

/// A trial that has ended.
pub(crate) struct Went {
    trial: usize,
    kind: Kind,
    /// The nodes that it needs.
    nodes: Vec<usize>,
    seen: Seen,
    outcome: Outcome,
    began_ms: u64,
    at_ms: u64,
}

/// Runs it, for as long as it may take.
pub(crate) async fn watch(
    kind: Kind,
    trial: usize,
    nodes: Vec<usize>,
    run: impl AsyncFnOnce(&mut Seen) -> Result<(), Exception>,
) -> Went {
    let (began_ms, mut seen) = (now_ms(), Seen::default());
    let outcome = match within(TIMEOUT + PATIENCE, run(&mut seen)).await {
        Some(Ok(())) => Outcome::Done,
        Some(Err(why)) => Outcome::Failed(why),
        None => Outcome::Hung,
    };
    Went { trial, kind, nodes, seen, outcome, began_ms, at_ms: now_ms() }
}

impl Went {
    fn happened<'o>(&self, outages: &'o Outages) -> impl Iterator<Item = &'o Outage> {
        let nodes = self.nodes.clone();
        let all = outages.between(self.began_ms.saturating_sub(AFTERMATH_MS), self.at_ms);
        all.filter(move |outage| nodes.contains(&outage.node))
    }

    /// Whether a repeated message may have taken the lock again that this trial waited for in vain: it stays taken until the node that has it ends.
    fn is_blocked_by_repetition(&self, outages: &Outages) -> bool {
        let repeats = |(node, life_us, _): &(usize, u64, u64)| {
            outages.between(life_us / 1_000, self.at_ms).any(|it| it.node == *node && it.fault.repeats())
        };
        self.seen.is_blocked && self.seen.lives.iter().any(repeats)
    }

    /// Reads of words of owners that had ended long before: old values taken for new ones.
    fn stale<'s>(&'s self, outages: &'s Outages) -> impl Iterator<Item = String> + 's {
        let stale = |(node, life_us, at_ms): &&(usize, u64, u64)| {
            outages.ended(*node, life_us / 1_000, at_ms.saturating_sub(DEAD_MEMORY_MS_MAX))
        };
        self.seen
            .lives
            .iter()
            .filter(stale)
            .map(|(node, life_us, at_ms)| format!("n{node} as it was from {life_us} µs on was read at {at_ms} ms"))
    }
}

impl Trial for Went {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn hold(&self, _: &Effects, outages: &Outages) -> (Tally, Option<String>) {
        let counts = |is_it: bool| usize::from(is_it);
        // Segments rely on links that never repeat a message: under the fault that makes them do so, words may change back.
        let echoed = matches!(self.kind, Kind::Segment | Kind::Lock)
            && self.happened(outages).any(|outage| outage.fault.repeats());
        let stale: Vec<_> = self.stale(outages).collect();
        let (failed, unknown) = match &self.outcome {
            Outcome::Failed(why) => (!why.unknown, why.unknown),
            Outcome::Done | Outcome::Hung => (false, false),
        };
        let tally = Tally {
            chains: 1,
            answered: counts(matches!(self.outcome, Outcome::Done)),
            failed: counts(failed),
            unknown: counts(unknown),
            hung: counts(matches!(self.outcome, Outcome::Hung)),
            // It failed, and nothing had happened to any node that it needs.
            lost: counts(
                (failed || unknown)
                    && self.happened(outages).next().is_none()
                    && !self.is_blocked_by_repetition(outages),
            ),
            misnamed: self.seen.misnamed.len(),
            wrong: stale.len() + if echoed { 0 } else { self.seen.wrong.len() },
            ..Tally::default()
        };
        let finding = (!tally.is_good()).then(|| self.describe(&stale, outages));
        (tally, finding)
    }
}

impl Went {
    fn describe(&self, stale: &[String], outages: &Outages) -> String {
        let Self { trial, kind, nodes, seen: Seen { wrong, misnamed, .. }, began_ms, at_ms, .. } = self;
        let ended = match &self.outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Failed(why) => format!("{why:?}"),
            Outcome::Hung => "never".to_owned(),
        };
        let after = |ms: u64| i128::from(ms) - i128::from(*at_ms);
        let fault = |it: &Outage| {
            format!("{} n{} from {} to {} ms", it.fault.name(), it.node, after(it.from_ms), after(it.to_ms))
        };
        let faults: Vec<_> = self.happened(outages).map(fault).collect();
        format!(
            "trial {trial} ({}): wrong: {wrong:?}, stale: {stale:?}, misnamed: {misnamed:?}\n    it ended: {ended}\n    it needed {nodes:?}, from {} ms on\n    faults of those: {faults:?}",
            kind.name(),
            after(*began_ms)
        )
    }
}
