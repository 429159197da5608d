//! A function run step by step (rpc-chains section 3.7): the real machines run it in interactive mode, each call waits until its user says so,
//! its result may be changed, and each earlier step can be gone back to, by telling a new chain the same up to there.

mod command;
mod gate;
mod teller;
mod way;

pub(crate) use command::{COMMANDS, Command};
pub(crate) use teller::Teller;

use std::collections::BTreeMap;

use catena::{
    Asked, Branch, Client, Code, Exception, Fault, Mode, Node, Reply, ReplySet, RunOptions, Sandbox, Start, Told,
    Value, What, exceptions as names,
};
use tokio::sync::{mpsc, oneshot};

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
use gate::Arrival;
use way::{Open, Way};

/// Steps that can be gone back to.
const HISTORY_MAX: usize = 5_000;

/// Where the function waits, and what was done there.
pub(crate) struct Stop {
    /// The call that is next; none at the end.
    call: Option<Open>,
    /// Others that have been made and wait.
    also: Vec<Open>,
    /// What had been said before.
    said: Said,
    answer: Option<Answer>,
}

/// How much of what a function says has been heard.
#[derive(Clone, Copy, Default)]
struct Said {
    lines: usize,
    emits: usize,
}

/// What is to be handed in.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) outcome: Result<Value, Exception>,
    /// By the user, not by the service.
    pub(crate) changed: bool,
}

/// What is debugged, and by which calls.
pub(crate) struct Subject<'a> {
    pub(crate) sandbox: Sandbox,
    pub(crate) input: Value,
    /// By which the calls are made.
    pub(crate) client: &'a Client,
    pub(crate) options: RunOptions,
}

/// A debugging session.
pub(crate) struct Debugger<'a> {
    subject: Subject<'a>,
    pub(crate) teller: Teller<'a>,
    /// Kept: without it nothing runs.
    node: Node,
    /// What the function is known by.
    pub(crate) code: Code,
    arrivals: mpsc::Receiver<Arrival>,
    run: Run,
    /// The last one is where the function is now.
    history: Vec<Stop>,
}

/// One chain; going back begins another.
struct Run {
    replies: ReplySet,
    way: Way,
    /// Events taken in.
    events: usize,
    said: Said,
    /// What was said before in a chain that did the same.
    muted: Said,
    emits: Vec<Value>,
    gate: BTreeMap<(Branch, u32), oneshot::Sender<Result<Value, Exception>>>,
    end: Option<Result<Value, Exception>>,
}

impl Run {
    fn begin(node: &Node, code: &Code, of: &Subject<'_>, start: Option<Start>, muted: Said) -> Result<Self, Exception> {
        let (timeout, mode) = (gate::SESSION_TIMEOUT, Mode::Interactive);
        let options = RunOptions { timeout, mode, record: true, start, ..of.options.clone() };
        let replies = node.client().run_with(code, &of.input, &options)?;
        let (said, emits, gate) = (Said::default(), Vec::new(), BTreeMap::new());
        Ok(Self { replies, way: Way::default(), events: 0, said, muted, emits, gate, end: None })
    }

    /// Whether nothing happens before its user says something.
    fn rests(&self) -> bool {
        let at_gate = |open: &Open| self.gate.contains_key(&(open.branch.clone(), open.step));
        match &self.end {
            None => self.way.rests(at_gate),
            Some(Ok(_)) => self.way.is_left_with(at_gate),
            Some(Err(_)) => true,
        }
    }

    /// Calls at the gate.
    fn calls(&self) -> impl Iterator<Item = &Open> {
        self.way.calls().filter(|open| self.gate.contains_key(&(open.branch.clone(), open.step)))
    }

    /// Takes in what has come of the chain.
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

    /// Lets it run until it rests.
    async fn settle(&mut self, arrivals: &mut mpsc::Receiver<Arrival>, teller: &mut Teller<'_>) -> Result<(), Failure> {
        loop {
            let (lines, events, over, rests) = (self.said.lines, self.events, self.end.is_some(), self.rests());
            tokio::select! {
                biased;
                heard = hearing::next(&mut self.replies, lines, events), if !over => self.take(heard, teller)?,
                // What a call follows from has been heard when the call comes.
                () = std::future::ready(()), if rests => return Ok(()),
                Some(Arrival { key, answer }) = arrivals.recv() => {
                    if key.chain == self.replies.chain() {
                        self.gate.insert((key.branch, key.step), answer);
                    }
                }
            }
            if self.way.full {
                let help = "`catena run` runs it to its end";
                return Err(Failure::input("TooLong", "the function does more than a session can hold", help));
            }
        }
    }

    fn hand_in(&mut self, call: &Open, outcome: Result<Value, Exception>) {
        if let Some(answer) = self.gate.remove(&(call.branch.clone(), call.step)) {
            // A call that nobody waits for any more has no outcome.
            let _ = answer.send(outcome);
        }
    }
}

impl<'a> Debugger<'a> {
    pub(crate) async fn begin(subject: Subject<'a>, teller: Teller<'a>) -> Result<Self, Failure> {
        let services = subject.client.services().await;
        let (sandbox, hops_max) = (subject.sandbox.clone(), subject.options.hops_max);
        let (node, arrivals) = gate::open(sandbox, &services, teller.source, hops_max).await?;
        let code = teller.source.load(&node.client()).await?;
        let run = Run::begin(&node, &code, &subject, None, Said::default());
        let run = run.map_err(|why| teller.source.threw(why))?;
        let mut debugger = Self { subject, teller, node, code, arrivals, run, history: Vec::new() };
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

    /// Steps that were taken.
    pub(crate) const fn number(&self) -> usize {
        self.history.len()
    }

    /// At the next call, or at the end.
    async fn arrive(&mut self) -> Result<(), Failure> {
        self.run.settle(&mut self.arrivals, &mut self.teller).await?;
        let mut calls = self.run.calls().cloned();
        let (call, also) = (calls.next(), calls.collect());
        self.history.push(Stop { call, also, said: self.run.said, answer: None });
        self.tell_where()
    }

    fn tell_where(&self) -> Result<(), Failure> {
        self.here().map_or(Ok(()), |stop| self.teller.stopped(self.history.len(), stop, self.run.end.as_ref(), None))
    }

    /// What will be handed in, if there is an outcome.
    fn tell_answer(&self) -> Result<(), Failure> {
        let answer = self.here().and_then(|stop| stop.answer.as_ref());
        answer.map_or(Ok(()), |answer| self.teller.answered(self.history.len(), answer))
    }

    /// Does what its user says, but ending the session; a command that cannot be obeyed is refused, with its reason.
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
            Command::Back(to) => self.back(to).await,
            Command::Show => self.show().await,
            Command::List => self.teller.list(&self.history),
            Command::Help => self.teller.help(),
            Command::Quit => Ok(()),
        }
    }

    /// Makes the call, or hands its outcome in; `false`: refused.
    async fn step(&mut self, signals: &mut Signals) -> Result<bool, Failure> {
        let Some((call, answer)) = self.here().and_then(|stop| Some((stop.call.clone()?, stop.answer.clone()))) else {
            self.teller.refuse("the function has ended; `back` goes back to a step")?;
            return Ok(false);
        };
        if let Some(Answer { outcome, .. }) = answer {
            if self.history.len() == HISTORY_MAX {
                self.teller.refuse(&format!("a session has at most {HISTORY_MAX} steps; `back` frees some"))?;
                return Ok(false);
            }
            self.run.hand_in(&call, outcome);
            self.arrive().await?;
            return Ok(true);
        }
        let (asked, options) = (&call.asked, &self.subject.options);
        let outcome = tokio::select! {
            outcome = made(self.subject.client, asked, options) => {
                outcome.map_err(|mut why| {
                    // Its way began here.
                    why.step = call.step;
                    why.path.insert(0, HERE.to_owned());
                    why.calling(&asked.service, &asked.function)
                })
            }
            () = signals.next() => {
                let why = Exception::new(names::CANCELLED, Fault::Caller, "the call was withdrawn while it was under way");
                Err(from_here(&call, why.outcome_unknown()))
            }
        };
        self.put(Answer { outcome, changed: false })?;
        Ok(true)
    }

    fn answer(&mut self, outcome: impl FnOnce(&Open) -> Result<Value, Exception>) -> Result<(), Failure> {
        match self.here().and_then(|stop| stop.call.as_ref()).map(outcome) {
            Some(outcome) => self.put(Answer { outcome, changed: true }),
            None => self.teller.refuse("the function has ended: there is no call to answer; `back` goes back to one"),
        }
    }

    fn put(&mut self, answer: Answer) -> Result<(), Failure> {
        self.teller.answered(self.history.len(), &answer)?;
        if let Some(stop) = self.history.last_mut() {
            stop.answer = Some(answer);
        }
        Ok(())
    }

    /// To the step before, or to the one of that number, where its outcome stands as it was: to be handed in again or changed.
    /// Once more: to before the call.
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
            self.history.truncate(to);
            self.run_again().await?;
        }
        self.tell_where()?;
        self.tell_answer()
    }

    /// Another chain, with the same clock and randomness, is told the same up to the last step of the history.
    async fn run_again(&mut self) -> Result<(), Failure> {
        let begun = |told: &Told| match told.what {
            What::Begun { started_at_ms, seed, .. } => Some(Start { started_at_ms, seed }),
            _ => None,
        };
        let start = self.run.replies.recording().iter().find_map(begun);
        let muted = self.here().map_or_else(Said::default, |stop| stop.said);
        let run = Run::begin(&self.node, &self.code, &self.subject, start, muted);
        // The chain before is stopped: nobody holds its answers any more.
        self.run = run.map_err(|why| self.teller.source.threw(why))?;
        self.run.settle(&mut self.arrivals, &mut self.teller).await?;
        for stop in self.history.iter().rev().skip(1).rev() {
            if let (Some(call), Some(answer)) = (&stop.call, &stop.answer) {
                self.run.hand_in(call, answer.outcome.clone());
                self.run.settle(&mut self.arrivals, &mut self.teller).await?;
            }
        }
        Ok(())
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

    /// The way that was taken in the end.
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

/// Makes a call, elsewhere. Of one that is answered many times its user sees all replies, as one list.
async fn made(client: &Client, asked: &Asked, options: &RunOptions) -> Result<Value, Exception> {
    if !asked.many {
        return client.call_with(&asked.service, &asked.function, asked.params.clone(), options).await;
    }
    let mut set = client.replies_with(&asked.target(), asked.params.clone(), options)?;
    let mut all = Vec::new();
    while let Some(reply) = set.next().await {
        all.push(reply?.into_value());
    }
    Ok(list_of(&all))
}

/// The replies as one array, each as it is.
fn list_of(values: &[Value]) -> Value {
    /// Begins an array whose length is in the eight bytes that follow (RFC 8949, section 3).
    const ARRAY: u8 = 0x9b;
    let mut bytes = vec![ARRAY];
    bytes.extend_from_slice(&(values.len() as u64).to_be_bytes());
    values.iter().for_each(|value| bytes.extend_from_slice(value.as_bytes()));
    Value::from_cbor(bytes.into()).unwrap_or_else(|_| Value::null())
}
