//! `catena replay FILE`.

use std::path::PathBuf;

use catena::{Limits, Value};
use clap::{Args, ValueHint};
use serde::Serialize;
use serde_json::json;

use crate::{
    commands::run::emitted,
    console::{self, Console},
    failure::{Failure, Threw},
    local::{Local, Pending, Said, State},
    output::{Output, printable},
    recording::{Call, Outcome, Recording},
    report, sandbox,
    signals::Signals,
    source::Source,
    value::Shown,
};

const EXAMPLES: &str = "\
Examples:
  catena run read.ts --record read.json      records a run
  catena replay read.json                    the same again, with no node at all
  catena replay read.json --source read.ts   what would the function do now, told the same?";

/// Run a recorded chain again, offline
///
/// The function is told what it was told when it was recorded, so it does the same: what it emits and its result come on standard output,
/// what it logs on standard error. With --source, another function is told the same; if it makes other calls, the first that differs is
/// named. No node is needed, and no call is made.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// What `catena run --record` or `catena debug --record` wrote
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Run this function instead of the one recorded
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    source: Option<PathBuf>,
    /// Where to write what the function logs: stderr, off, or a file
    #[arg(long, value_name = "WHERE", default_value = "stderr", value_hint = ValueHint::FilePath, value_parser = console::place)]
    console: console::Where,
}

pub(crate) async fn run(args: &Replay, output: &Output) -> Result<(), Failure> {
    let recording = Recording::read(&args.file)?;
    let source = args.source.as_deref().map_or_else(|| recording.source(), Source::read)?;
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(Limits::default(), output)).await?;
    let local = Local::load(sandbox, &source, recording.start()?, recording.hops_max, recording.lowered).await?;
    if args.source.is_none() && local.hash().to_string() != recording.function.hash && !output.json {
        output.talk("note: this build has another engine than the one of the recording");
    }
    let mut stage = Stage { recording: &recording, source: &source, said: 0, args, output };
    let (state, emitted) = signals.unless(stage.play(&local)).await?;
    stage.close(&state, emitted)
}

/// Where the function stands, and what it says goes out.
struct Stage<'a> {
    recording: &'a Recording,
    source: &'a Source,
    /// Lines said so far.
    said: usize,
    args: &'a Replay,
    output: &'a Output,
}

/// How it compares with the recording.
#[derive(Serialize)]
struct Compared {
    calls: usize,
    /// Whether result, intermediate answers and console are those of the recording.
    same: bool,
}

impl Stage<'_> {
    async fn play(&mut self, local: &Local) -> Result<(State, Vec<Value>), Failure> {
        let began_at_us = self.recording.console.first().map_or(0, |line| line.at_us);
        let mut console = Console::open(&self.args.console, began_at_us, self.output)?;
        let (mut state, said) = local.begin(&self.recording.input.0).await;
        let mut emits = Vec::new();
        self.hear(said, &mut console, &mut emits)?;
        for (index, recorded) in self.recording.calls.iter().enumerate() {
            let Some(call) = state.calls().find(|call| is(recorded, call)).cloned() else {
                return Err(self.another_way(index, Some(recorded), &state));
            };
            let (next, said) = local.settle(&state, &call, recorded.outcome.clone().into()).await;
            state = next;
            self.hear(said, &mut console, &mut emits)?;
        }
        // A recording may end before the function did; then so does this.
        if self.recording.end.is_some() && state.calls().next().is_some() {
            return Err(self.another_way(self.recording.calls.len(), None, &state));
        }
        Ok((state, emits))
    }

    fn hear(&mut self, said: Said, console: &mut Console, emits: &mut Vec<Value>) -> Result<(), Failure> {
        for line in said.lines {
            // The time is that of the recording, where it said the same.
            let recorded = self.recording.console.get(self.said).filter(|recorded| recorded.text == line.text);
            self.said = if recorded.is_some() { self.said + 1 } else { usize::MAX };
            console.line(&recorded.map_or(line, crate::recording::Line::shown))?;
        }
        for value in said.emits {
            emitted(&value, self.output)?;
            emits.push(value);
        }
        Ok(())
    }

    /// The function no longer does what was recorded.
    fn another_way(&self, index: usize, recorded: Option<&Call>, state: &State) -> Failure {
        let was = recorded
            .map_or_else(|| "ended".to_owned(), |call| format!("called {}", shown(&call.target, &call.params.0)));
        let now = state.calls().next();
        let does = match (now, state.end()) {
            (Some(call), _) => format!("calls {}", shown(&call.target(), &call.call.params)),
            (None, Some(Ok(value))) => format!("ends with {}", brief(value)),
            (None, Some(Err(why))) => format!("ends with {}: {}", why.name, why.message),
            (None, None) => "waits for nothing".to_owned(),
        };
        let message = format!("another way at call {}: the recording {was}, and the function now {does}", index + 1);
        let help = "look at what it does before that call; `catena run --record` records the new way";
        let failure = Failure::another_way(printable(&message), help);
        let ended = state.end().and_then(|end| end.as_ref().err());
        let spot = match now {
            Some(call) => self.source.at(call.call.line, call.call.column),
            None => ended.and_then(|why| self.source.spot(why)),
        };
        match spot {
            Some(spot) => failure.at(spot),
            None => failure,
        }
    }

    fn close(&self, state: &State, emits: Vec<Value>) -> Result<(), Failure> {
        let (recording, output) = (self.recording, self.output);
        let calls = recording.calls.len();
        let Some(end) = state.end() else {
            let message = format!("the recording ends before the function does: {calls} calls were the same");
            if output.json {
                return output.json_line(&json!({ "calls": calls, "same": true, "incomplete": true }));
            }
            output.talk(&message);
            return Ok(());
        };
        let same = recording.end.as_ref() == Some(&Outcome::from(end))
            && recording.emits.iter().map(|emit| &emit.0).eq(&emits)
            && self.said == recording.console.len();
        let ended = end.clone().map_err(|exception| {
            let spot = self.source.spot(&exception);
            Failure::Threw(Box::new(Threw { exception, spot, ended: None, cancelled: false }))
        });
        if output.json {
            return report::tell(ended, Compared { calls, same }, output);
        }
        if !same {
            output
                .talk(&format!("note: {calls} calls were the same; what it says or its end is not what was recorded"));
        }
        output.json_pretty(&Shown(&ended?))
    }
}

fn is(recorded: &Call, call: &Pending) -> bool {
    (recorded.step, &recorded.branch) == (call.step, &call.branch)
        && recorded.target == call.target()
        && recorded.params.0 == call.call.params
}

/// Longest payload shown within a sentence, in characters.
const BRIEF_CHARS_MAX: usize = 200;

pub(crate) fn brief(value: &Value) -> String {
    let text = Shown(value).compact();
    if text.chars().count() <= BRIEF_CHARS_MAX {
        return text;
    }
    text.chars().take(BRIEF_CHARS_MAX).collect::<String>() + "..."
}

fn shown(target: &str, params: &Value) -> String {
    format!("{target}({})", brief(params))
}
