//! A function run step by step (rpc-chains section 3.7): each call is made when its user says so, its result may be changed, and each
//! earlier step can be gone back to, since the state there was kept.

mod command;
mod teller;

pub(crate) use command::{COMMANDS, Command};
pub(crate) use teller::Teller;

use catena::{Client, Exception, Fault, RunOptions, Value, exceptions as names};

use crate::{
    failure::Failure,
    local::{Local, Pending, Said, State},
    recorder,
    recording::Recording,
    signals::Signals,
};

/// Steps that can be gone back to. Each keeps a continuation of some kilobytes.
const HISTORY_MAX: usize = 10_000;

/// Where the function waits, and what was done there.
pub(crate) struct Stop {
    pub(crate) state: State,
    /// What it said on its way here.
    pub(crate) said: Said,
    pub(crate) answer: Option<Answer>,
}

/// What is to be handed in.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) outcome: Result<Value, Exception>,
    /// By the user, not by the service.
    pub(crate) changed: bool,
}

impl Stop {
    /// The call that is next.
    pub(crate) fn call(&self) -> Option<&Pending> {
        self.state.calls().next()
    }
}

/// What a command came to.
pub(crate) enum Went {
    On,
    /// The session is over.
    Out,
    /// Not done, for this reason.
    No(String),
}

/// A debugging session.
pub(crate) struct Debugger<'a> {
    local: &'a Local,
    client: &'a Client,
    options: &'a RunOptions,
    teller: Teller<'a>,
    /// The last one is where the function is now.
    history: Vec<Stop>,
}

impl<'a> Debugger<'a> {
    pub(crate) async fn begin(
        local: &'a Local,
        input: &Value,
        client: &'a Client,
        options: &'a RunOptions,
        teller: Teller<'a>,
    ) -> Result<Self, Failure> {
        let (state, said) = local.begin(input).await;
        let mut debugger = Self { local, client, options, teller, history: Vec::new() };
        debugger.arrive(state, said)?;
        Ok(debugger)
    }

    fn here(&self) -> Option<&Stop> {
        self.history.last()
    }

    /// How the function ended, if nothing is left to do.
    pub(crate) fn end(&self) -> Option<&Result<Value, Exception>> {
        self.here().filter(|stop| stop.call().is_none()).and_then(|stop| stop.state.end())
    }

    /// Steps that were taken.
    pub(crate) fn number(&self) -> usize {
        self.history.len()
    }

    fn arrive(&mut self, state: State, said: Said) -> Result<(), Failure> {
        self.teller.said(&said)?;
        self.history.push(Stop { state, said, answer: None });
        self.tell_where()
    }

    fn tell_where(&self) -> Result<(), Failure> {
        self.here().map_or(Ok(()), |stop| self.teller.stopped(self.history.len(), stop))
    }

    pub(crate) async fn obey(&mut self, command: Command, signals: &mut Signals) -> Result<Went, Failure> {
        match command {
            Command::Step => return self.step(signals).await,
            Command::Continue => {
                while self.end().is_none() {
                    if let no @ Went::No(_) = self.step(signals).await? {
                        return Ok(no);
                    }
                }
            }
            Command::Set(value) => return self.answer(|_| Ok(value)),
            Command::Throw { name, message } => {
                return self.answer(|call| {
                    let why = Exception::new(&name, Fault::Service, message);
                    Err(why
                        .calling(&call.call.service, &call.call.function)
                        .at_step(call.step, &[crate::local::HERE.into()]))
                });
            }
            Command::Back(to) => return self.back(to),
            Command::Show => self.here().map_or(Ok(()), |stop| self.teller.show(self.history.len(), stop))?,
            Command::List => self.teller.list(&self.history)?,
            Command::Help => self.teller.help()?,
            Command::Quit => return Ok(Went::Out),
        }
        Ok(Went::On)
    }

    /// Makes the call, or hands its outcome in.
    async fn step(&mut self, signals: &mut Signals) -> Result<Went, Failure> {
        let Some((stop, call)) = self.here().and_then(|stop| stop.call().map(|call| (stop, call.clone()))) else {
            return Ok(Went::No("the function has ended; `back` goes back to a step".to_owned()));
        };
        if let Some(Answer { outcome, .. }) = stop.answer.clone() {
            if self.history.len() == HISTORY_MAX {
                return Ok(Went::No(format!("a session has at most {HISTORY_MAX} steps; `back` frees some")));
            }
            let (state, said) = self.local.settle(&stop.state, &call, outcome).await;
            self.arrive(state, said)?;
            return Ok(Went::On);
        }
        let outcome = tokio::select! {
            outcome = recorder::make(self.client, &call, self.options) => outcome,
            () = signals.next() => {
                let why = Exception::new(names::CANCELLED, Fault::Caller, "the call was withdrawn while it was under way");
                let why = why.calling(&call.call.service, &call.call.function).outcome_unknown();
                Err(why.at_step(call.step, &[crate::local::HERE.to_owned()]))
            }
        };
        self.put(Answer { outcome, changed: false })
    }

    fn answer(&mut self, outcome: impl FnOnce(&Pending) -> Result<Value, Exception>) -> Result<Went, Failure> {
        match self.here().and_then(Stop::call).map(outcome) {
            Some(outcome) => self.put(Answer { outcome, changed: true }),
            None => {
                Ok(Went::No("the function has ended: there is no call to answer; `back` goes back to one".to_owned()))
            }
        }
    }

    fn put(&mut self, answer: Answer) -> Result<Went, Failure> {
        self.teller.answered(self.history.len(), &answer)?;
        if let Some(stop) = self.history.last_mut() {
            stop.answer = Some(answer);
        }
        Ok(Went::On)
    }

    /// To the step before, or to the one of that number, where its outcome stands as it was: to be handed in again or changed.
    /// Once more: to before the call.
    fn back(&mut self, to: Option<usize>) -> Result<Went, Failure> {
        let here = self.history.len();
        if to.is_none()
            && let Some(stop) = self.history.last_mut()
            && stop.answer.take().is_some()
        {
            self.tell_where()?;
            return Ok(Went::On);
        }
        let to = to.unwrap_or(here.saturating_sub(1));
        if to == 0 || to > here {
            return Ok(Went::No(format!("there is no step {to}: `list` shows those there are")));
        }
        self.history.truncate(to);
        self.tell_where()?;
        if let Some(answer) = self.here().and_then(|stop| stop.answer.as_ref()) {
            self.teller.answered(to, answer)?;
        }
        Ok(Went::On)
    }

    /// Says why a command was not obeyed.
    pub(crate) fn refuse(&self, why: &str) -> Result<(), Failure> {
        self.teller.refuse(why)
    }

    /// The exception with which the function ended, for people and programs.
    pub(crate) fn failure(&self, why: &Exception) -> Failure {
        self.teller.failure(why)
    }

    /// The way that was taken in the end.
    pub(crate) fn write_into(&self, recording: &mut Recording) {
        for (index, stop) in self.history.iter().enumerate() {
            recording.said(&stop.said);
            let handed_in = index + 1 < self.history.len();
            if let (true, Some(call), Some(answer)) = (handed_in, stop.call(), &stop.answer) {
                recording.called(call, &answer.outcome, answer.changed);
            }
        }
        recording.ended(self.end());
    }
}
