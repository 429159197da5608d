//! A function run here, event by event, by whoever makes its calls: the debugger, the recorder, the replayer (rpc-chains section 3.7).
//!
//! Its state between two events is a value: the continuation, and what the function waits for. So going back to an earlier step is
//! taking an earlier state. The branches of a split are run one after the other, each from the continuation at the split.

mod state;

pub(crate) use state::{Pending, State};

use std::sync::Arc;

use catena::{ChainId, Exception, Fault, Hash, LogLine, NodeId, Policy, Sandbox, Value, exceptions as names};
use catena_guest::{Image, Session, Start, Turn};

use self::state::{Continuation, Fork};
use crate::{failure::Failure, lowering::Lowered, source::Source};

/// The name of the node that this process is, as a client has it.
pub(crate) const HERE: &str = "client";
/// Splits within splits.
const SPLIT_DEPTH_MAX: usize = 16;

/// A function, loaded here.
pub(crate) struct Local {
    sandbox: Sandbox,
    image: Arc<Image>,
    pub(crate) start: Start,
    pub(crate) hops_max: u32,
    /// What the function may use at each step, where that is less than this sandbox allows.
    pub(crate) lowered: Lowered,
    policy: Policy,
}

/// What a function said while it ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) emits: Vec<Value>,
    pub(crate) lines: Vec<LogLine>,
}

/// What is handed to a function.
enum Event<'a> {
    Start(&'a Value),
    Settle(u32, Result<Value, Exception>),
    Branch(u32, u16),
}

/// The chain that a function run here stands for.
pub(crate) fn new_chain() -> ChainId {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the system's randomness.
    let drawn = std::hash::RandomState::new().build_hasher().finish();
    ChainId { origin: NodeId(drawn), number: 1 }
}

impl Local {
    pub(crate) async fn load(
        sandbox: Sandbox,
        source: &Source,
        start: Start,
        hops_max: u32,
        lowered: Lowered,
    ) -> Result<Self, Failure> {
        let function = sandbox.function(source.kind, &source.name, source.bytes.clone());
        let loaded = sandbox.load(function.hash(), &function.encode()).await;
        let image = loaded.map_err(|why| source.refused(&why))?;
        Ok(Self { sandbox, image, start, hops_max, lowered, policy: Policy::default() })
    }

    /// What the function is known by.
    pub(crate) fn hash(&self) -> Hash {
        self.image.code()
    }

    /// Begins the function.
    pub(crate) async fn begin(&self, input: &Value) -> (State, Said) {
        let mut said = Said::default();
        let begun = match self.sandbox.begin(&self.image).await {
            Ok(session) => self.turn(session, Event::Start(input)).await,
            Err(why) => Err(why),
        };
        let mut state = State::new();
        if let Some(event) = self.take(&mut state, begun, &mut said) {
            self.run(&mut state, event, &mut said).await;
        }
        (state, said)
    }

    /// Hands in the outcome of one of the calls that the state waits for.
    pub(crate) async fn settle(&self, state: &State, of: &Pending, outcome: Result<Value, Exception>) -> (State, Said) {
        let (mut state, mut said) = (state.clone(), Said::default());
        if state.take_call(of) {
            self.run(&mut state, Event::Settle(of.call.call, outcome), &mut said).await;
        }
        (state, said)
    }

    /// From an event to where the function waits for calls, or has ended.
    async fn run(&self, state: &mut State, mut event: Event<'static>, said: &mut Said) {
        loop {
            let turned = match self.sandbox.resume(&self.image, &state.here.continuation).await {
                Ok(session) => self.turn(session, event).await,
                Err(why) => Err(why),
            };
            match self.take(state, turned, said) {
                Some(next) => event = next,
                None => return,
            }
        }
    }

    /// What one turn brought; the answer is what to hand in next without waiting for anybody.
    fn take(
        &self,
        state: &mut State,
        turned: Result<(Turn, Continuation), Exception>,
        said: &mut Said,
    ) -> Option<Event<'static>> {
        let ended = match turned {
            Err(why) => Some(Err(why)),
            Ok((turn, continuation)) => {
                let (at_us, step) = (crate::clock::unix_us(), state.here.step);
                let branch = state.here.branch();
                let line =
                    |text| LogLine { step, node: HERE.to_owned(), at_us, text, branch: branch.clone(), number: 0 };
                said.lines.extend(turn.logs.into_iter().map(line));
                said.emits.extend(turn.emits);
                state.here.continuation = continuation;
                let issued = turn.calls.len() + turn.splits.len();
                state.issue(turn.calls, turn.splits);
                turn.end.or_else(|| self.broken_limit(state, issued).map(Err))
            }
        };
        match ended {
            Some(outcome) => state.end_thread(outcome).map(|index| match index {
                state::Next::Branch(call, index) => Event::Branch(call, index),
                state::Next::Merged(call, outcomes) => Event::Settle(call, Ok(outcomes)),
            }),
            None => self.split(state),
        }
    }

    /// The rules that the nodes have for chains too.
    fn broken_limit(&self, state: &State, issued: usize) -> Option<Exception> {
        let waits_for = state.here.calls.len() + state.here.splits.len();
        if waits_for == 0 {
            let why = "the function waits for something that no call will settle; await a call, or return";
            return Some(Exception::new(names::STALLED, Fault::Guest, why));
        }
        if waits_for > self.policy.calls_per_chain_max {
            let max = self.policy.calls_per_chain_max;
            let why =
                format!("{waits_for} calls side by side, where calls_per_chain_max is {max}; await some of them first");
            return Some(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, why));
        }
        (issued > 0 && state.hops > self.hops_max).then(|| {
            let why = "the chain has made all the calls that its hop budget allows; give it more, or look for a loop";
            Exception::new(names::HOP_BUDGET_EXCEEDED, Fault::Guest, why)
        })
    }

    /// Begins a split when nothing else is waited for.
    fn split(&self, state: &mut State) -> Option<Event<'static>> {
        if !state.here.calls.is_empty() || state.here.splits.is_empty() {
            return None;
        }
        let (split, from) = state.here.splits.remove(0);
        let refused = if split.count == 0 || split.count > self.policy.branches_max {
            Some(format!("a split into {} branches, where branches_max is {}", split.count, self.policy.branches_max))
        } else if state.forks.len() == SPLIT_DEPTH_MAX {
            Some("splits within splits are too deep; merge before splitting again".to_owned())
        } else {
            None
        };
        if let Some(why) = refused {
            let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, why).at_line(split.line, split.column);
            return Some(Event::Settle(split.call, Err(why)));
        }
        let call = split.call;
        let parent = std::mem::take(&mut state.here);
        state.begin_fork(Fork::new(parent, split, from));
        Some(Event::Branch(call, 0))
    }

    /// One event in, one turn out, and the continuation after it.
    async fn turn(&self, mut session: Session, event: Event<'_>) -> Result<(Turn, Continuation), Exception> {
        session.lower(&self.lowered.limits())?;
        let turn = match event {
            Event::Start(input) => session.start(input, self.start).await?,
            Event::Settle(call, outcome) => session.settle(call, outcome.as_ref()).await?,
            Event::Branch(call, index) => session.branch(call, index).await?,
        };
        let continuation =
            if turn.end.is_some() { Continuation::default() } else { Arc::from(session.suspend().await?.as_ref()) };
        Ok((turn, continuation))
    }
}
