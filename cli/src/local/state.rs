//! Where a function is between two events.

use std::sync::Arc;

use catena::{Branch, Exception, Value};
use catena_guest::{GuestCall, GuestSplit};
use minicbor::{Encode, Encoder, encode};

/// A function's memory as it differs from its image: shared, since each step of a history has one.
pub(super) type Continuation = Arc<[u8]>;

/// A call that may be answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    /// Which branch made it: empty for the chain itself, else such as `.1.2`.
    pub(crate) branch: String,
    /// Its number in that branch.
    pub(crate) step: u32,
    pub(crate) call: GuestCall,
}

impl Pending {
    /// `service/function`.
    pub(crate) fn target(&self) -> String {
        format!("{}/{}", self.call.service, self.call.function)
    }

    /// Its step as people read it: `3`, or `.1 step 3`.
    pub(crate) fn place(&self) -> String {
        if self.branch.is_empty() { self.step.to_string() } else { format!("{} of branch {}", self.step, self.branch) }
    }
}

/// One branch, or the chain itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub(super) continuation: Continuation,
    pub(super) calls: Vec<Pending>,
    /// Each with the continuation from which its branches begin.
    pub(super) splits: Vec<(GuestSplit, Continuation)>,
    /// The newest step.
    pub(super) step: u32,
    /// Branches begun so far: they are numbered through.
    branches: u32,
    name: String,
}

impl Thread {
    /// Which one it is.
    pub(super) fn branch(&self) -> Branch {
        self.name.parse().unwrap_or_default()
    }
}

/// A split whose branches are being run.
#[derive(Clone, Debug)]
pub(super) struct Fork {
    parent: Thread,
    split: GuestSplit,
    from: Continuation,
    first: u32,
    outcomes: Vec<Result<Value, Exception>>,
}

impl Fork {
    pub(super) fn new(mut parent: Thread, split: GuestSplit, from: Continuation) -> Self {
        let first = parent.branches + 1;
        parent.branches += split.count;
        Self { parent, split, from, first, outcomes: Vec::new() }
    }

    fn branch(&self) -> Thread {
        let number = self.first + u32::try_from(self.outcomes.len()).unwrap_or(u32::MAX);
        Thread {
            continuation: self.from.clone(),
            step: self.parent.step,
            name: format!("{}.{number}", self.parent.name),
            ..Thread::default()
        }
    }
}

/// What follows the end of a branch.
pub(super) enum Next {
    Branch(u32, u16),
    Merged(u32, Value),
}

/// Everything there is to know of the function between two events.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(super) forks: Vec<Fork>,
    pub(super) here: Thread,
    /// Calls of what has ended, which nobody awaits: they are made all the same, as on one machine.
    unheard: Vec<Pending>,
    /// Calls and splits in all.
    pub(super) hops: u32,
    end: Option<Result<Value, Exception>>,
}

impl State {
    pub(super) fn new() -> Self {
        Self { forks: Vec::new(), here: Thread::default(), unheard: Vec::new(), hops: 0, end: None }
    }

    /// The calls that may be answered now, in the order in which they were made.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Pending> {
        self.here.calls.iter().chain(&self.unheard)
    }

    /// How the function ended. Calls that nobody awaits may be left.
    pub(crate) const fn end(&self) -> Option<&Result<Value, Exception>> {
        self.end.as_ref()
    }

    /// Bytes of the continuation, and of those of the splits around it.
    pub(crate) fn bytes(&self) -> usize {
        let forks = self.forks.iter().map(|fork| fork.parent.continuation.len());
        forks.sum::<usize>() + self.here.continuation.len()
    }

    /// Takes a call out of those waited for. False if its outcome is of no use to the function.
    pub(super) fn take_call(&mut self, of: &Pending) -> bool {
        self.unheard.retain(|call| call != of);
        let before = self.here.calls.len();
        self.here.calls.retain(|call| call != of);
        self.here.calls.len() < before && self.end.is_none()
    }

    pub(super) fn issue(&mut self, calls: Vec<GuestCall>, splits: Vec<GuestSplit>) {
        for call in calls {
            self.count();
            let (branch, step) = (self.here.name.clone(), self.here.step);
            self.here.calls.push(Pending { branch, step, call });
        }
        for split in splits {
            self.count();
            let from = self.here.continuation.clone();
            self.here.splits.push((split, from));
        }
    }

    fn count(&mut self) {
        self.hops = self.hops.saturating_add(1);
        self.here.step = self.here.step.saturating_add(1);
    }

    pub(super) fn begin_fork(&mut self, fork: Fork) {
        self.here = fork.branch();
        self.forks.push(fork);
    }

    /// The function has ended, in this branch at least.
    pub(super) fn end_thread(&mut self, outcome: Result<Value, Exception>) -> Option<Next> {
        let path = [super::HERE.to_owned()];
        let outcome = outcome.map_err(|why| why.at_step(self.here.step, &path));
        self.unheard.append(&mut self.here.calls);
        let Some(mut fork) = self.forks.pop() else {
            self.end = Some(outcome);
            return None;
        };
        fork.outcomes.push(outcome);
        let (call, done) = (fork.split.call, fork.outcomes.len());
        if done < usize::try_from(fork.split.count).unwrap_or(usize::MAX) {
            self.begin_fork(fork);
            return Some(Next::Branch(call, u16::try_from(done).unwrap_or(u16::MAX)));
        }
        self.here = fork.parent;
        Some(Next::Merged(call, Value::encode(&Outcomes(&fork.outcomes))))
    }
}

/// What a merge host hands in: for each branch `[true, result]` or `[false, exception]`.
struct Outcomes<'a>(&'a [Result<Value, Exception>]);

impl<C> Encode<C> for Outcomes<'_> {
    fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.array(self.0.len() as u64)?;
        for outcome in self.0 {
            e.array(2)?.bool(outcome.is_ok())?;
            match outcome {
                // Inline, not as a byte string: the function sees the value itself.
                Ok(value) => e.writer_mut().write_all(value.as_bytes()).map_err(encode::Error::write)?,
                Err(why) => why.encode(e, ctx)?,
            }
        }
        Ok(())
    }
}
