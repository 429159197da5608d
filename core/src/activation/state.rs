//! What a chain carries from hop to hop.

use alloc::{boxed::Box, string::String, vec::Vec};
use catena_wire::{
    BranchCount, ChainHeader, Exception, Frame, Hash, Listener, LogLine, Merge, NodeId, Outcome, PossibleDuplicate,
    StepKey, StepLimits, StepTrace, TRACE_STEPS_MAX, Value,
};

use super::recording::Recording;

#[derive(Clone, Debug)]
pub(crate) struct ChainState {
    pub(crate) code: Hash,
    pub(crate) header: ChainHeader,
    /// Enclosing chains, outermost first.
    pub(crate) stack: Vec<Frame>,
    pub(crate) emitted: u32,
    /// Branches that this one has split into so far.
    pub(crate) splits: u16,
    /// Where this branch's outcome goes.
    pub(crate) merge: Option<Box<Merge>>,
    /// For each branch that has merged into this one, how many answers it has sent.
    pub(crate) merged: Vec<BranchCount>,
    pub(crate) path: Vec<String>,
    pub(crate) trace: Option<Vec<StepTrace>>,
    /// What its guests were told, if the origin asked for a recording.
    pub(crate) recording: Option<Box<Recording>>,
    pub(crate) console: Vec<LogLine>,
    /// How many of these lines the origin has been sent.
    pub(crate) console_told: u32,
    /// What the function may use, if that is less than each node allows.
    pub(crate) limits: StepLimits,
    /// Its function was told of a call whose outcome is unknown.
    pub(crate) uncertain: bool,
    /// Set if the chain is flagged as a possible duplicate. Boxed, since few chains are.
    pub(crate) duplicate: Option<Box<PossibleDuplicate>>,
}

impl ChainState {
    /// Who is told of its intermediate answers.
    pub(crate) fn listener(&self) -> Listener {
        match (self.stack.last(), &self.merge) {
            (Some(frame), _) if frame.hears => Listener::Creator(frame.creator.clone(), frame.step),
            (Some(_), _) => Listener::Nobody,
            (None, Some(merge)) => merge.listener.clone(),
            (None, None) => Listener::Origin,
        }
    }

    /// How many answers were sent to the origin.
    pub(crate) fn answers(&self) -> u32 {
        match (self.stack.first(), &self.merge) {
            (_, Some(merge)) if merge.listener != Listener::Origin => 0,
            // A sub-chain's exception ends the whole composed chain: the answers of the outermost chain count.
            (Some(outermost), _) => outermost.emitted,
            (None, _) => self.emitted,
        }
    }

    /// Adds to the profile, if the origin asked for one.
    pub(crate) fn note(&mut self, profile: impl IntoIterator<Item = StepTrace>) {
        if let Some(trace) = &mut self.trace {
            let room = TRACE_STEPS_MAX.saturating_sub(trace.len());
            trace.extend(profile.into_iter().take(room));
        }
    }

    /// The result as the function has to see it; notes its uncertainty. In a possible duplicate, what has failed now may have been done by another way, so its
    /// outcome is unknown.
    pub(crate) fn observe(&mut self, result: Result<Value, Exception>) -> Result<Value, Exception> {
        let result = match self.duplicate {
            Some(_) => result.map_err(Exception::outcome_unknown),
            None => result,
        };
        self.uncertain |= matches!(&result, Err(why) if why.unknown);
        result
    }

    /// Notes the uncertainty of branch outcomes, which are handed to the function.
    pub(crate) fn observe_branches(&mut self, outcomes: &[Outcome]) {
        self.uncertain |= outcomes.iter().any(|outcome| matches!(outcome, Outcome::Threw(why) if why.unknown));
    }

    /// The outcome of the function as others have to see it. If it was told of an unknown outcome and then throws, whatever it throws, its own outcome is
    /// unknown; if it answers, it has dealt with the uncertainty (rpc-chains section 3.9).
    pub(crate) fn conclude(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Threw(why) if self.uncertain || self.duplicate.is_some() => Outcome::Threw(why.outcome_unknown()),
            certain => certain,
        }
    }

    /// The outcome of the whole chain, also from within a sub-chain: the uncertainty of enclosing chains counts, whatever they would have done about it.
    pub(crate) fn conclude_all(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Threw(why) if self.stack.iter().any(|frame| frame.uncertain) => {
                Outcome::Threw(why.outcome_unknown())
            }
            other => self.conclude(other),
        }
    }

    /// Begins a new way of the chain, a possible duplicate: a node that was lost may have done this step, and the chain goes on from here.
    pub(crate) fn begin_way(&mut self, key: &StepKey, here: NodeId) -> &PossibleDuplicate {
        let before = self.duplicate.take();
        let way = before.as_ref().map_or(0, |before| before.way);
        let mix = |way: u64, part: u64| (way ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let way = mix(mix(mix(way, here.0), u64::from(key.step)), 0x0d0b_1e5d).max(1);
        // The earliest such step is kept: everything since then may have been done twice.
        let since = before.map_or_else(|| key.clone(), |before| before.since);
        self.duplicate.insert(Box::new(PossibleDuplicate { since, way }))
    }

    /// Bytes that keeping the state takes.
    pub(crate) fn bytes(&self) -> usize {
        let stacked: usize = self.stack.iter().map(|frame| size_of::<Frame>() + frame.continuation.len()).sum();
        let steps: usize = self.trace.iter().flatten().map(StepTrace::kept_bytes).sum();
        let recorded = self.recording.as_ref().map_or(0, |recording| recording.bytes());
        stacked + steps + recorded + self.merged.len() * size_of::<BranchCount>() + self.branch_bytes()
    }

    /// Those of them of which each branch has a copy when the chain splits.
    pub(crate) fn branch_bytes(&self) -> usize {
        let lines: usize = self.console.iter().map(LogLine::kept_bytes).sum();
        let hosts: usize = self.path.iter().map(|host| size_of::<String>() + host.len()).sum();
        lines + hosts + self.header.credentials.as_ref().map_or(0, Value::len_bytes)
    }
}
