//! A function run step by step (rpc-chains section 3.7): the real state machines run it in interactive mode, and each call waits for the user, who may
//! change its result. Going back to an earlier step runs a new chain, which is given the same results up to there.

mod command;
mod gate;
mod teller;
mod way;

pub(crate) use command::{Command, list};
pub(crate) use teller::Teller;

use catena::{
    Asked, Client, Code, Exception, Fault, Mode, Node, Reply, ReplySet, RunOptions, Sandbox, Start, Told, Value, What,
    exceptions as names,
};

use crate::{
    commands::run::emitted,
    connect::HERE,
    failure::Failure,
    hearing::{self, Heard},
    recording::Recording,
    replayer::Replayer,
    signals::Signals,
    value::Exact,
};
use gate::Gate;
use way::{Open, Way};

/// Bound on the steps of a session, all of which one can go back to.
const HISTORY_MAX: usize = 5_000;

/// A step of the session: the call at which the function waits, and its outcome if there is one yet.
pub(crate) struct Stop {
    /// The next call; `None` at the end, and while the function is under way because a command was interrupted.
    call: Option<Open>,
    /// Other calls that are also waiting.
    also: Vec<Open>,
    /// How much the function had said when it stopped here.
    said: Said,
    answer: Option<Answer>,
}

/// How many console lines and intermediate answers of a function have been received.
#[derive(Clone, Copy, Default)]
struct Said {
    lines: usize,
    emits: usize,
}

/// The outcome that will be handed to the function for a call.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) outcome: Result<Value, Exception>,
    /// Whether the user set it, rather than the service.
    pub(crate) changed: bool,
}

/// What is debugged, and how its calls are made.
pub(crate) struct Subject<'a> {
    pub(crate) sandbox: Sandbox,
    pub(crate) input: Value,
    /// The client that makes the function's calls.
    pub(crate) client: &'a Client,
    pub(crate) options: RunOptions,
}

/// A debugging session.
pub(crate) struct Debugger<'a> {
    subject: Subject<'a>,
    pub(crate) teller: Teller<'a>,
    /// The node at which the function runs; dropping it would end the run.
    node: Node,
    /// The function, as the node knows it.
    pub(crate) code: Code,
    gate: Gate,
    run: Run,
    /// All steps; the function waits at the last one.
    history: Vec<Stop>,
}

/// A run of the function as one chain; going back starts another run.
struct Run {
    replies: ReplySet,
    way: Way,
    /// Recorded events processed so far.
    events: usize,
    said: Said,
    /// Output not to be shown again, since an earlier run that did the same has shown it.
    muted: Said,
    emits: Vec<Value>,
    end: Option<Result<Value, Exception>>,
}

impl Run {
    fn begin(node: &Node, code: &Code, of: &Subject<'_>, start: Option<Start>, muted: Said) -> Result<Self, Exception> {
        let (timeout, mode) = (gate::SESSION_TIMEOUT, Mode::Interactive);
        let options = RunOptions { timeout, mode, record: true, start, ..of.options.clone() };
        let replies = node.client().run_with(code, &of.input, &options)?;
        let (way, said, emits) = (Way::default(), Said::default(), Vec::new());
        Ok(Self { replies, way, events: 0, said, muted, emits, end: None })
    }

    /// Whether the run makes no progress until the user acts.
    fn rests(&mut self, gate: &Gate) -> bool {
        self.way.look(gate, self.replies.chain());
        match &self.end {
            None => self.way.rests(),
            Some(Ok(_)) => self.way.is_left_with(),
            Some(Err(_)) => true,
        }
    }

    /// Processes what was received from the chain.
    fn take(&mut self, heard: Heard, teller: &mut Teller<'_>) -> Result<(), Failure> {
        for told in self.replies.recording().iter().skip(self.events) {
            self.way.take(told);
            self.events += 1;
        }
        for line in self.replies.console().iter().skip(self.said.lines) {
            self.said.lines += 1;
            if self.said.lines > self.muted.lines {
                teller.logged(line)?;
            }
        }
        match heard {
            Heard::More => {}
            Heard::Reply(Ok(Reply::Partial(value))) => {
                self.said.emits += 1;
                if self.said.emits > self.muted.emits {
                    emitted(&value, teller.output)?;
                }
                self.emits.push(value);
            }
            Heard::Reply(Ok(Reply::Last(value))) => self.end = Some(Ok(value)),
            Heard::Reply(Err(why)) => self.end = Some(Err(why)),
        }
        Ok(())
    }

    /// Runs the function until it waits for the user. Cancel-safe.
    async fn settle(&mut self, gate: &mut Gate, teller: &mut Teller<'_>) -> Result<(), Failure> {
        loop {
            let (lines, events, over, rests) = (self.said.lines, self.events, self.end.is_some(), self.rests(gate));
            tokio::select! {
                biased;
                heard = hearing::next(&mut self.replies, lines, events), if !over => self.take(heard, teller)?,
                // After the branch above: whatever led to a call is received before the call arrives.
                () = std::future::ready(()), if rests => return Ok(()),
                () = gate.arrival() => {}
            }
            if self.way.full {
                let help = "`catena run` runs it to its end";
                return Err(Failure::input("TooLong", "the function does more than a session can hold", help));
            }
        }
    }

    fn hand_in(&mut self, gate: &mut Gate, call: &Open, outcome: Result<Value, Exception>) {
        let awaited = gate.answer(self.replies.chain(), call, outcome);
        if !awaited || self.end.is_some() {
            self.way.forget(call);
        }
    }
}

impl<'a> Debugger<'a> {
    pub(crate) async fn begin(subject: Subject<'a>, teller: Teller<'a>) -> Result<Self, Failure> {
        let services = subject.client.services().await;
        let (sandbox, hops_max) = (subject.sandbox.clone(), subject.options.hops_max);
        let (node, gate) = gate::open(sandbox, &services, teller.source, hops_max).await?;
        let code = teller.source.load(&node.client()).await?;
        let run = Run::begin(&node, &code, &subject, None, Said::default());
        let run = run.map_err(|why| teller.source.threw(why))?;
        let mut debugger = Self { subject, teller, node, code, gate, run, history: Vec::new() };
        debugger.arrive().await?;
        Ok(debugger)
    }

    fn here(&self) -> Option<&Stop> {
        self.history.last()
    }

    /// How the function ended, if nothing is left to do.
    pub(crate) fn end(&self) -> Option<&Result<Value, Exception>> {
        self.run.end.as_ref().filter(|_| self.here().is_none_or(|stop| stop.call.is_none()))
    }

    /// The number of steps so far.
    pub(crate) const fn number(&self) -> usize {
        self.history.len()
    }

    /// Runs to the next call or to the end, and records the stop there.
    async fn arrive(&mut self) -> Result<(), Failure> {
        self.run.settle(&mut self.gate, &mut self.teller).await?;
        self.gate.keep(self.run.replies.chain());
        let mut calls = self.run.way.calls().cloned();
        let (call, also) = (calls.next(), calls.collect());
        self.stop(call, also)
    }

    fn stop(&mut self, call: Option<Open>, also: Vec<Open>) -> Result<(), Failure> {
        // In place of the stop, if there is one, at which it was under way.
        self.history.pop_if(|stop| stop.call.is_none());
        self.history.push(Stop { call, also, said: self.run.said, answer: None });
        self.tell_where()
    }

    fn tell_where(&self) -> Result<(), Failure> {
        self.here().map_or(Ok(()), |stop| self.teller.stopped(self.history.len(), stop, self.run.end.as_ref(), None))
    }

    /// Reports the outcome that will be handed in, if there is one.
    fn tell_answer(&self) -> Result<(), Failure> {
        let answer = self.here().and_then(|stop| stop.answer.as_ref());
        answer.map_or(Ok(()), |answer| self.teller.answered(self.history.len(), answer))
    }

    /// Carries out a command, except ending the session, which is up to the caller; refuses one that is impossible, with the reason. A signal ends
    /// the command, which is then `Interrupted`; the session can go on from where it is.
    pub(crate) async fn obey(&mut self, command: Command, signals: &mut Signals) -> Result<(), Failure> {
        match command {
            Command::Step => self.step(signals).await.map(drop),
            Command::Continue => {
                while self.end().is_none() && self.step(signals).await? {}
                Ok(())
            }
            Command::Set(value) => self.answer(|_| Ok(value)),
            Command::Throw { name, message } => {
                self.answer(|call| Err(from_here(call, Exception::new(&name, Fault::Service, message))))
            }
            Command::Back(to) => signals.unless(self.back(to)).await,
            Command::Show => signals.unless(self.show()).await,
            Command::List => self.teller.list(&self.history),
            Command::Help => self.teller.help(),
            Command::Quit => Ok(()),
        }
    }

    /// Makes the call, or hands in its outcome if there is one, or waits for the next call; returns `false` if the step was refused.
    async fn step(&mut self, signals: &mut Signals) -> Result<bool, Failure> {
        let Some((call, answer)) = self.here().and_then(|stop| Some((stop.call.clone()?, stop.answer.clone()))) else {
            if self.run.end.is_none() {
                return self.go_on(signals).await;
            }
            self.teller.refuse("the function has ended; `back` goes back to a step")?;
            return Ok(false);
        };
        if let Some(Answer { outcome, .. }) = answer {
            if self.history.len() == HISTORY_MAX {
                self.teller.refuse(&format!("a session has at most {HISTORY_MAX} steps; `back` frees some"))?;
                return Ok(false);
            }
            self.run.hand_in(&mut self.gate, &call, outcome);
            return self.go_on(signals).await;
        }
        let (asked, options) = (&call.asked, &self.subject.options);
        let (outcome, interrupted) = tokio::select! {
            outcome = made(self.subject.client, asked, options) => {
                let outcome = outcome.map_err(|mut why| {
                    // Seen from the function, the call was made at this step, from here.
                    why.step = call.step;
                    why.path.insert(0, HERE.to_owned());
                    why.calling(&asked.service, &asked.function)
                });
                (outcome, false)
            }
            () = signals.next() => {
                let why = Exception::new(names::CANCELLED, Fault::Caller, "the call was withdrawn while it was under way");
                (Err(from_here(&call, why.outcome_unknown())), true)
            }
        };
        self.put(Answer { outcome, changed: false })?;
        if interrupted { Err(Failure::Interrupted) } else { Ok(true) }
    }

    /// Runs to the next call or to the end, unless a signal comes first: then the function is under way.
    async fn go_on(&mut self, signals: &mut Signals) -> Result<bool, Failure> {
        let arrived = signals.unless(self.arrive()).await;
        if matches!(arrived, Err(Failure::Interrupted)) {
            self.stop(None, Vec::new())?;
        }
        arrived.map(|()| true)
    }

    fn answer(&mut self, outcome: impl FnOnce(&Open) -> Result<Value, Exception>) -> Result<(), Failure> {
        match self.here().and_then(|stop| stop.call.as_ref()).map(outcome) {
            Some(outcome) => self.put(Answer { outcome, changed: true }),
            None => {
                self.teller.refuse("the function is at no call: there is no call to answer; `back` goes back to one")
            }
        }
    }

    fn put(&mut self, answer: Answer) -> Result<(), Failure> {
        self.teller.answered(self.history.len(), &answer)?;
        if let Some(stop) = self.history.last_mut() {
            stop.answer = Some(answer);
        }
        Ok(())
    }

    /// Goes back: if the current call has an outcome and no number is given, to before that call; else to the step before, or to the step with the
    /// number, whose outcome is kept, to be handed in again or changed.
    async fn back(&mut self, to: Option<usize>) -> Result<(), Failure> {
        let here = self.history.len();
        if to.is_none()
            && let Some(stop) = self.history.last_mut()
            && stop.answer.take().is_some()
        {
            return self.tell_where();
        }
        let to = to.unwrap_or(here.saturating_sub(1));
        if to == 0 || to > here {
            return self.teller.refuse(&format!("there is no step {to}: `list` shows those there are"));
        }
        if to < here {
            // Replacing the run drops the reply set of the previous chain, which stops that chain.
            self.run = self.run_again(to).await?;
            self.gate.keep(self.run.replies.chain());
            self.history.truncate(to);
        }
        self.tell_where()?;
        self.tell_answer()
    }

    /// Starts another chain with the same clock and randomness, and hands it the same outcomes up to this step. Nothing else changes, so a signal may end it.
    async fn run_again(&mut self, to: usize) -> Result<Run, Failure> {
        let begun = |told: &Told| match told.what {
            What::Begun { started_at_ms, seed, .. } => Some(Start { started_at_ms, seed }),
            _ => None,
        };
        let start = self.run.replies.recording().iter().find_map(begun);
        let muted = self.history.get(to - 1).map_or_else(Said::default, |stop| stop.said);
        let run = Run::begin(&self.node, &self.code, &self.subject, start, muted);
        let mut run = run.map_err(|why| self.teller.source.threw(why))?;
        run.settle(&mut self.gate, &mut self.teller).await?;
        for stop in self.history.iter().take(to - 1) {
            if let (Some(call), Some(answer)) = (&stop.call, &stop.answer) {
                run.hand_in(&mut self.gate, call, answer.outcome.clone());
                run.settle(&mut self.gate, &mut self.teller).await?;
            }
        }
        Ok(run)
    }

    async fn show(&self) -> Result<(), Failure> {
        let (sandbox, limits) = (self.subject.sandbox.clone(), self.subject.options.limits);
        let mut guests = Replayer::load(sandbox, self.teller.source, limits).await?;
        for told in self.run.replies.recording() {
            guests.tell(told).await;
        }
        let Some(stop) = self.here() else { return Ok(()) };
        self.teller.stopped(self.history.len(), stop, self.run.end.as_ref(), Some(guests.state_bytes().await))?;
        self.tell_answer()
    }

    /// Records the last run, without steps that were gone back from.
    pub(crate) fn write_into(&self, recording: &mut Recording) {
        recording.take(self.run.replies.recording(), self.run.replies.console(), self.run.end.as_ref());
        recording.emits = self.run.emits.iter().cloned().map(Exact).collect();
        let handed_in =
            self.history.iter().rev().skip(1).filter(|stop| stop.answer.as_ref().is_some_and(|a| a.changed));
        handed_in
            .filter_map(|stop| stop.call.as_ref())
            .for_each(|call| recording.mark_changed(&call.branch, call.asked.call));
    }
}

fn from_here(call: &Open, why: Exception) -> Exception {
    why.calling(&call.asked.service, &call.asked.function).at_step(call.step, &[HERE.to_owned()])
}

/// Makes the call at the real service. A call with many replies yields them as one list, for the user to see.
async fn made(client: &Client, asked: &Asked, options: &RunOptions) -> Result<Value, Exception> {
    if !asked.many {
        return client.call_with(&asked.service, &asked.function, asked.params.clone(), options).await;
    }
    let mut set = client.replies_with(&asked.target(), asked.params.clone(), options)?;
    let mut all = Vec::new();
    while let Some(reply) = set.next().await {
        all.push(reply?.into_value());
    }
    list_of(&all)
}

/// The replies as one CBOR array, each kept byte for byte.
fn list_of(values: &[Value]) -> Result<Value, Exception> {
    /// Initial byte of a CBOR array whose length follows in eight bytes (RFC 8949, section 3).
    const ARRAY: u8 = 0x9b;
    let mut bytes = vec![ARRAY];
    bytes.extend_from_slice(&(values.len() as u64).to_be_bytes());
    values.iter().for_each(|value| bytes.extend_from_slice(value.as_bytes()));
    Value::from_cbor(bytes.into()).map_err(|why| {
        let message = format!("the debugger hands replies in as one list, which cannot be made of these: {why}");
        Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, message)
    })
}
