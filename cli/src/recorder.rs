//! A chain run here, by plain calls, and written down: `catena run --record`.

use std::time::Instant;

use catena::{Client, Exception, Fault, RunOptions, Value, exceptions as names};
use tokio::task::JoinSet;

use crate::{
    failure::Failure,
    local::{HERE, Local, Pending, Said, State},
    recording::Recording,
    signals::Signals,
};

/// How a recorded run ended.
pub(crate) struct Ran {
    pub(crate) end: Result<Value, Exception>,
    pub(crate) cancelled: bool,
    pub(crate) recording: Recording,
}

type Answered = (Pending, Result<Value, Exception>);

/// The calls that are under way. Dropping it withdraws them.
struct Calls<'a> {
    client: &'a Client,
    options: &'a RunOptions,
    until: Instant,
    under_way: Vec<Pending>,
    tasks: JoinSet<Answered>,
}

impl Calls<'_> {
    /// Makes those that the function waits for and that are not under way.
    fn begin(&mut self, state: &State) {
        for call in state.calls() {
            if self.under_way.contains(call) {
                continue;
            }
            self.under_way.push(call.clone());
            let timeout = self.until.saturating_duration_since(Instant::now());
            let (client, options, call) =
                (self.client.clone(), RunOptions { timeout, ..self.options.clone() }, call.clone());
            self.tasks.spawn(async move {
                let outcome = make(&client, &call, &options).await;
                (call, outcome)
            });
        }
    }

    async fn next(&mut self) -> Option<Answered> {
        // A task that panicked answered nothing; there is none.
        let (call, outcome) = self.tasks.join_next().await?.ok()?;
        self.under_way.retain(|other| *other != call);
        Some((call, outcome))
    }

    /// The earliest step that may or may not have been done.
    fn unknown(&self, name: &str, why: &str) -> Exception {
        let step = self.under_way.iter().map(|call| call.step).min().unwrap_or_default();
        let why = Exception::new(name, Fault::Caller, why).at_step(step, &[HERE.to_owned()]);
        if self.under_way.is_empty() { why } else { why.outcome_unknown() }
    }
}

/// Makes one call as a chain in interactive mode would.
pub(crate) async fn make(client: &Client, of: &Pending, options: &RunOptions) -> Result<Value, Exception> {
    let (service, function) = (&of.call.service, &of.call.function);
    let made = client.call_with(service, function, of.call.params.clone(), options).await;
    made.map_err(|why| {
        let mut why = why.calling(service, function);
        why.step = of.step;
        why.path.insert(0, HERE.to_owned());
        why
    })
}

/// Runs the function to its end, or to a signal. `hear` is told what it says as it says it.
pub(crate) async fn run(
    local: &Local,
    mut recording: Recording,
    client: &Client,
    options: &RunOptions,
    signals: &mut Signals,
    mut hear: impl FnMut(&Said) -> Result<(), Failure>,
) -> Result<Ran, Failure> {
    let until = Instant::now() + options.timeout;
    let mut calls = Calls { client, options, until, under_way: Vec::new(), tasks: JoinSet::new() };
    let (mut state, mut said) = local.begin(&recording.input.0).await;
    loop {
        hear(&said)?;
        recording.said(&said);
        calls.begin(&state);
        if calls.under_way.is_empty() {
            break;
        }
        let answered = tokio::select! {
            answered = calls.next() => answered,
            () = signals.next() => {
                let why = calls.unknown(names::CANCELLED, "the run was cancelled");
                return Ok(Ran { end: Err(why), cancelled: true, recording });
            }
            () = tokio::time::sleep_until(until.into()) => {
                let why = calls.unknown(names::DEADLINE_EXCEEDED, "no time left; allow more time");
                recording.ended(None);
                return Ok(Ran { end: Err(why), cancelled: false, recording });
            }
        };
        let Some((call, outcome)) = answered else { break };
        recording.called(&call, &outcome, false);
        (state, said) = local.settle(&state, &call, outcome).await;
    }
    recording.ended(state.end());
    let nothing = || {
        Err(Exception::new(names::STALLED, Fault::Guest, "the function waits for something that no call will settle"))
    };
    let end = state.end().cloned().unwrap_or_else(nothing);
    Ok(Ran { end, cancelled: false, recording })
}
