//! A recording in a file: all that a chain's nodes told its function, so that it can be run again with nobody there.

use std::path::Path;

use catena::{Asked, Branch, Exception, FunctionKind, Hash, LogLine, Outcome, Told, Value, What};
use catena_script::Spot;
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    input,
    source::Source,
    terms::Lowered,
    value::{Exact, ExactException, base64},
};

/// The version that this build writes, and the only one that it reads.
const VERSION: u32 = 2;
/// Largest recording.
const BYTES_MAX: u64 = 256 << 20;

/// What stands in the file, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    /// Says what the file is.
    catena_recording: u32,
    pub(crate) function: Recorded,
    hops_max: u32,
    /// Limits that were lowered for it, at each step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lowered: Lowered,
    /// Events in order within each branch; those of a branch come after its parent's split.
    told: Vec<Event>,
    pub(crate) emits: Vec<Exact>,
    console: Vec<Line>,
    /// How it ended; absent if the recording ends before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<End>,
}

/// The function.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    name: String,
    /// By which nodes know it; the engine's hash is a part of it.
    pub(crate) hash: String,
    /// As it was written, for JavaScript and TypeScript.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// In base64, for WebAssembly.
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
}

/// [`Told`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    step: u32,
    /// Of a split: such as `.1.2`.
    #[serde(default, skip_serializing_if = "is_default")]
    branch: String,
    /// Chains around the sub-chain whose event it is.
    #[serde(default, skip_serializing_if = "is_default")]
    depth: u8,
    #[serde(flatten)]
    happened: Happened,
    /// The outcome is not what the service answered: somebody put it in its place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) changed: bool,
}

/// [`What`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Happened {
    /// `seed` as text: many programs that read JSON hold numbers as floating point.
    Begun {
        code: String,
        input: Exact,
        started_at_ms: u64,
        seed: String,
    },
    Settled {
        call: u32,
        #[serde(flatten)]
        outcome: End,
    },
    Begins {
        call: u32,
        index: u16,
    },
    Turned(Vec<Call>),
    Ended,
    Full,
}

/// [`Asked`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    call: u32,
    service: String,
    function: String,
    params: Exact,
    #[serde(default, skip_serializing_if = "is_default")]
    branches: u32,
    line: u32,
    column: u32,
    /// It is answered many times.
    #[serde(default, skip_serializing_if = "is_default")]
    many: bool,
}

/// A result or an exception.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Result(Exact),
    Error(ExactException),
}

/// A line of the console.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    step: u32,
    /// Of a split: such as `.1.2`.
    #[serde(default, skip_serializing_if = "is_default")]
    branch: String,
    node: String,
    at_us: u64,
    text: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<&Result<Value, Exception>> for End {
    fn from(outcome: &Result<Value, Exception>) -> Self {
        match outcome {
            Ok(value) => Self::Result(Exact(value.clone())),
            Err(why) => Self::Error(ExactException(why.clone())),
        }
    }
}

impl From<End> for Result<Value, Exception> {
    fn from(end: End) -> Self {
        match end {
            End::Result(Exact(value)) => Ok(value),
            End::Error(ExactException(why)) => Err(why),
        }
    }
}

impl From<&Told> for Event {
    fn from(told: &Told) -> Self {
        let happened = match &told.what {
            What::Begun { code, input, started_at_ms, seed } => Happened::Begun {
                code: code.to_string(),
                input: Exact(input.clone()),
                started_at_ms: *started_at_ms,
                seed: seed.to_string(),
            },
            What::Settled(call, outcome) => Happened::Settled {
                call: *call,
                outcome: (&outcome.as_result().cloned().map_err(Exception::clone)).into(),
            },
            What::Branch(call, index) => Happened::Begins { call: *call, index: *index },
            What::Turned(asked) => Happened::Turned(asked.iter().map(Call::from).collect()),
            What::Ended => Happened::Ended,
            What::Full => Happened::Full,
        };
        Self { step: told.step, branch: told.branch.to_string(), depth: told.depth, happened, changed: false }
    }
}

impl Event {
    fn told(self) -> Result<Told, Failure> {
        let what = match self.happened {
            Happened::Begun { code: _, input: Exact(input), started_at_ms, seed } => {
                let seed = seed.parse().map_err(|_| bad("a seed is not a number"))?;
                // The function is named at the top of the file; that of a sub-chain is not available.
                What::Begun { code: Hash([0; 32]), input, started_at_ms, seed }
            }
            Happened::Settled { call, outcome } => What::Settled(call, Outcome::from(Result::from(outcome))),
            Happened::Begins { call, index } => What::Branch(call, index),
            Happened::Turned(calls) => What::Turned(calls.into_iter().map(Asked::from).collect()),
            Happened::Ended => What::Ended,
            Happened::Full => What::Full,
        };
        Ok(Told { branch: branch_of(&self.branch)?, step: self.step, depth: self.depth, what })
    }
}

impl From<&Asked> for Call {
    fn from(asked: &Asked) -> Self {
        let Asked { call, service, function, params, branches, line, column, many } = asked.clone();
        Self { call, service, function, params: Exact(params), branches, line, column, many }
    }
}

impl From<Call> for Asked {
    fn from(call: Call) -> Self {
        let Call { call, service, function, params: Exact(params), branches, line, column, many } = call;
        Self { call, service, function, params, branches, line, column, many }
    }
}

impl From<&LogLine> for Line {
    fn from(line: &LogLine) -> Self {
        let LogLine { step, node, at_us, text, branch, .. } = line.clone();
        Self { step, branch: branch.to_string(), node, at_us, text }
    }
}

impl Line {
    fn logged(self) -> Result<LogLine, Failure> {
        let Self { step, branch, node, at_us, text } = self;
        Ok(LogLine { step, node, at_us, text, branch: branch_of(&branch)?, number: 0 })
    }
}

impl Recording {
    pub(crate) fn new(source: &Source, hash: Hash, hops_max: u32, lowered: Lowered) -> Self {
        let module = (source.kind == FunctionKind::Wasm).then(|| base64::encode(&source.bytes));
        let function = Recorded {
            name: source.name.clone(),
            hash: hash.to_string(),
            source: source.text().map(str::to_owned),
            module,
        };
        let (told, emits, console) = (Vec::new(), Vec::new(), Vec::new());
        Self { catena_recording: VERSION, function, hops_max, lowered, told, emits, console, end: None }
    }

    /// Takes over what was received from the chain. Its end counts only if its nodes reported it: else the chain was given up here.
    pub(crate) fn take(&mut self, told: &[Told], console: &[LogLine], end: Option<&Result<Value, Exception>>) {
        let root_ended = |told: &Told| told.branch.is_root() && told.what == What::Ended;
        self.end = end.filter(|_| told.iter().any(root_ended)).map(End::from);
        self.told = told.iter().map(Event::from).collect();
        self.console = console.iter().map(Line::from).collect();
    }

    /// The outcome of this call is not what its service answered.
    pub(crate) fn mark_changed(&mut self, branch: &Branch, call: u32) {
        let branch = branch.to_string();
        let is = |event: &&mut Event| {
            event.branch == branch
                && matches!(event.happened, Happened::Settled { call: settled, .. } if settled == call)
        };
        self.told.iter_mut().filter(is).for_each(|event| event.changed = true);
    }

    /// What the guests were told.
    pub(crate) fn told(&self) -> Result<Vec<Told>, Failure> {
        self.told.iter().cloned().map(Event::told).collect()
    }

    /// What the function logged.
    pub(crate) fn lines(&self) -> Result<Vec<LogLine>, Failure> {
        self.console.iter().cloned().map(Line::logged).collect()
    }

    /// The function that was recorded.
    pub(crate) fn source(&self) -> Result<Source, Failure> {
        let bytes = match (&self.function.source, &self.function.module) {
            (Some(source), None) => source.clone().into_bytes(),
            (None, Some(module)) => base64::decode(module).ok_or_else(|| bad("its module is not base64"))?,
            _ => return Err(bad("it must have either a source or a module")),
        };
        Source::of(Path::new(&self.function.name), bytes)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = input::file(path, BYTES_MAX)?;
        let text = String::from_utf8_lossy(&bytes);
        // The version first: another one may look different in all else.
        #[derive(Deserialize)]
        struct Version {
            catena_recording: u32,
        }
        let wrong = |why: &serde_json::Error| {
            let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let spot = Spot::at_line(&path.to_string_lossy(), &text, number(why.line()), number(why.column()));
            bad(&why.to_string()).at(spot)
        };
        let Version { catena_recording: version } = serde_json::from_str(&text).map_err(|why| wrong(&why))?;
        if version != VERSION {
            let message = format!("{} is a recording of version {version}; this build reads {VERSION}", path.display());
            return Err(Failure::input("BadRecording", message, "record it again with this build"));
        }
        serde_json::from_str(&text).map_err(|why| wrong(&why))
    }

    /// Writes it into the file, if one is named.
    pub(crate) fn write(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let cannot = |why: String| {
            let message = format!("the recording cannot be written to {}: {why}", path.display());
            Failure::input("CannotWrite", message, "name another file with --record FILE")
        };
        let mut text = serde_json::to_vec_pretty(self).map_err(|why| cannot(why.to_string()))?;
        text.push(b'\n');
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > BYTES_MAX {
            return Err(cannot(format!("it has more than {BYTES_MAX} bytes")));
        }
        std::fs::write(path, text).map_err(|why| cannot(why.to_string()))
    }
}

fn branch_of(text: &str) -> Result<Branch, Failure> {
    text.parse().map_err(|_| bad("a branch is not written as .1.2"))
}

fn bad(why: &str) -> Failure {
    Failure::input("BadRecording", format!("not a recording: {why}"), "`catena run FILE --record OUT` makes one")
}
