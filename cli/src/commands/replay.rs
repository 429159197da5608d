//! `catena replay FILE`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
};

use catena::{Asked, Branch, Exception, LogLine, Told, Value, What};
use clap::{Args, ValueHint};
use serde_json::json;

use crate::{
    commands::run::emitted,
    connect::HERE,
    console::{self, Console, step_of},
    failure::Failure,
    output::{Output, printable},
    recording::Recording,
    replayer::{Did, Replayer},
    report, sandbox,
    signals::Signals,
    source::Source,
    value::{Shown, compact},
};

const EXAMPLES: &str = "\
Examples:
  catena run read.ts --record read.json      records a run
  catena replay read.json                    the same again, with no node at all
  catena replay read.json --source read.ts   what would the function do now, told the same?";

/// Run a recorded chain again, offline
///
/// The function is told what the nodes told it when it was recorded, at each step and in each branch, so it does the same: what it emits
/// and its result come on standard output, what it logs on standard error. With --source, another function is told the same; if it makes
/// other calls, the first that differs is named. No node is needed, and no call is made.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// What `catena run --record` or `catena debug --record` wrote
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Run this function instead of the one recorded
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    source: Option<PathBuf>,
    #[command(flatten)]
    console: console::Destination,
}

pub(crate) async fn run(args: &Replay, output: &Output) -> Result<(), Failure> {
    let recording = Recording::read(&args.file)?;
    let source = args.source.as_deref().map_or_else(|| recording.source(), Source::read)?;
    let (told, lines) = (recording.told()?, recording.lines()?);
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(output)).await?;
    let replayer = Replayer::load(sandbox, &source, recording.lowered.limits()).await?;
    if args.source.is_none() && replayer.hash().to_string() != recording.function.hash && !output.json {
        output.talk("note: this build has another engine than the one of the recording");
    }
    let console = Console::open(&args.console.console, lines.first().map_or(0, |line| line.at_us), output)?;
    let mut stage = Stage { replayer, source: &source, output, console, lines: Lines::of(lines), emits: Vec::new() };
    let calls = signals.unless(stage.play(&told)).await?;
    stage.close(&recording, &told, calls).and(stage.console.close())
}

/// The replayed function, and where its output goes.
struct Stage<'a> {
    replayer: Replayer,
    source: &'a Source,
    output: &'a Output,
    console: Console,
    lines: Lines,
    emits: Vec<Value>,
}

impl Stage<'_> {
    /// Replays all events to the function; returns how many of its calls had an outcome.
    async fn play(&mut self, told: &[Told]) -> Result<usize, Failure> {
        let (mut asked, mut settled) = (0, 0);
        let mut calls = BTreeSet::new();
        let mut does: BTreeMap<Branch, Vec<Asked>> = BTreeMap::new();
        for (index, event) in told.iter().enumerate() {
            if let Some(did) = self.replayer.tell(event).await {
                if let What::Settled(call, _) = &event.what {
                    // Outcomes of splits, and later reads of a reply set, are not counted as calls.
                    settled += usize::from(calls.contains(&(event.branch.clone(), *call)));
                }
                does.insert(event.branch.clone(), self.hear(event, did)?);
            } else if let What::Turned(did) = &event.what
                && let Some(does) = does.remove(&event.branch)
            {
                let same = did.iter().zip(&does).take_while(|(did, does)| is(did, does)).count();
                asked += did.iter().take(same).filter(|asked| asked.branches == 0).count();
                if same < did.len().max(does.len()) {
                    let over = did.is_empty() && told.get(index + 1).is_some_and(|next| next.what == What::Ended);
                    return Err(self.another_way(asked + 1, event, did.get(same), over, does.get(same)));
                }
                calls.extend(did.iter().filter(|did| did.branches == 0).map(|did| (event.branch.clone(), did.call)));
            }
        }
        Ok(settled)
    }

    /// Prints what the function logs and emits; returns the calls that it makes, to be compared.
    fn hear(&mut self, event: &Told, did: Did) -> Result<Vec<Asked>, Failure> {
        for text in did.logs {
            self.console.line(&self.lines.find(event, text));
        }
        for value in did.emits {
            emitted(&value, self.output)?;
            self.emits.push(value);
        }
        Ok(did.asked)
    }

    /// The failure to report when the function does something else than was recorded.
    fn another_way(&self, number: usize, at: &Told, was: Option<&Asked>, over: bool, now: Option<&Asked>) -> Failure {
        let was = match was {
            Some(asked) => shown(asked, "called", "split"),
            None if over => "ended".to_owned(),
            None => "called nothing".to_owned(),
        };
        let end = self.replayer.end(&at.branch);
        let does = match (now, end) {
            (Some(asked), _) => shown(asked, "calls", "splits"),
            (None, Some(Ok(value))) => format!("ends with {}", brief(value)),
            (None, Some(Err(why))) => format!("ends with {}: {}", why.name, why.message),
            (None, None) => "calls nothing".to_owned(),
        };
        let place = step_of(at.step, &at.branch);
        let message = format!(
            "another way at call {number}: the recording {was}, and the function now {does} (after step {place})"
        );
        let help = "look at what it does before that call; `catena run --record` records the new way";
        let failure = Failure::another_way(printable(&message), help);
        let spot = match (now, end) {
            (Some(asked), _) => self.source.at(asked.line, asked.column),
            (None, end) => end.and_then(|end| end.as_ref().err()).and_then(|why| self.source.spot(why)),
        };
        failure.at(spot)
    }

    fn close(&self, recording: &Recording, told: &[Told], calls: usize) -> Result<(), Failure> {
        let output = self.output;
        let Some(end) = recording.end.clone().map(Result::<Value, Exception>::from) else {
            let full = told.iter().any(|told| told.what == What::Full);
            let why = if full { ": there was no room for more" } else { "" };
            return output.say(
                || json!({ "calls": calls, "same": true, "incomplete": true }),
                || format!("the recording ends before the function does{why}: {calls} calls were the same"),
            );
        };
        let last = told.iter().rfind(|told| told.branch.is_root()).map_or(0, |told| told.step);
        let now = match (self.replayer.end(&Branch::root()), &end) {
            (Some(now), _) => now.clone().map_err(|why| why.at_step(last, &[HERE.to_owned()])),
            // The function did not end: a node ended the chain, and would do so again.
            (None, _) => end.clone(),
        };
        let encoded = |values: &mut dyn Iterator<Item = &Value>| {
            let mut all: Vec<Vec<u8>> = values.map(|value| value.as_bytes().to_vec()).collect();
            // The order between branches is not fixed.
            all.sort();
            all
        };
        let emitted = encoded(&mut recording.emits.iter().map(|emit| &emit.0)) == encoded(&mut self.emits.iter());
        // Result, intermediate answers and console are those of the recording.
        let same = is_same(&now, &end) && emitted && self.lines.all_found(told);
        let ended = now.map_err(|why| self.source.threw(why));
        if output.json {
            return report::tell(ended, json!({ "calls": calls, "same": same }), output);
        }
        if !same {
            let note = "what it says or its end is not what was recorded";
            output.talk(&format!("note: {calls} calls were the same; {note}"));
        }
        output.json_pretty(&Shown(&ended?))
    }
}

/// The recorded console lines not yet matched, by branch.
struct Lines {
    left: BTreeMap<Branch, VecDeque<LogLine>>,
    passed_over: bool,
    strange: bool,
}

impl Lines {
    fn of(lines: Vec<LogLine>) -> Self {
        let mut left: BTreeMap<Branch, VecDeque<LogLine>> = BTreeMap::new();
        lines.into_iter().for_each(|line| left.entry(line.branch.clone()).or_default().push_back(line));
        Self { left, passed_over: false, strange: false }
    }

    /// The recorded line with this text, with its node and time; recorded lines before it, such as those of sub-chains, are skipped.
    fn find(&mut self, at: &Told, text: String) -> LogLine {
        let left = self.left.entry(at.branch.clone()).or_default();
        if let Some(place) = left.iter().position(|line| line.text == text) {
            self.passed_over |= left.drain(..place).count() > 0;
            if let Some(line) = left.pop_front() {
                return line;
            }
        }
        self.strange = true;
        let at_us = left.front().map_or(0, |line| line.at_us);
        LogLine { step: at.step, node: HERE.to_owned(), at_us, text, branch: at.branch.clone(), number: 0 }
    }

    fn all_found(&self, told: &[Told]) -> bool {
        let alone = told.iter().all(|told| told.depth == 0);
        let others = self.passed_over || !self.left.values().all(VecDeque::is_empty);
        !(self.strange || alone && others)
    }
}

fn is(did: &Asked, does: &Asked) -> bool {
    (&did.service, &did.function, did.branches, did.many) == (&does.service, &does.function, does.branches, does.many)
        && did.params == does.params
}

/// Exceptions are compared by name and message only: the recorded one has passed more hosts on its way home.
fn is_same(now: &Result<Value, Exception>, end: &Result<Value, Exception>) -> bool {
    match (now, end) {
        (Ok(now), Ok(end)) => now == end,
        (Err(now), Err(end)) => (&now.name, &now.message) == (&end.name, &end.message),
        _ => false,
    }
}

/// Longest payload shown within a sentence, in characters.
const BRIEF_CHARS_MAX: usize = 200;

pub(crate) fn brief(value: &Value) -> String {
    let text = compact(value);
    if text.chars().count() <= BRIEF_CHARS_MAX {
        return text;
    }
    text.chars().take(BRIEF_CHARS_MAX).collect::<String>() + "..."
}

fn shown(asked: &Asked, calls: &str, splits: &str) -> String {
    match asked.branches {
        0 if asked.many => format!("{calls} {}({}) for its replies", asked.target(), brief(&asked.params)),
        0 => format!("{calls} {}({})", asked.target(), brief(&asked.params)),
        branches => format!("{splits} into {branches} branches"),
    }
}
