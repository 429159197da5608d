//! A recording: all that a function was told from outside, so that it can be run again with nobody there.

use std::path::Path;

use catena::{Exception, FunctionKind, LogLine, Value};
use catena_guest::Start;
use serde::{Deserialize, Serialize};

use crate::{
    excerpt::Spot,
    failure::Failure,
    input,
    local::{HERE, Local, Pending, Said},
    lowering::Lowered,
    source::Source,
    value::{Exact, ExactException, base64},
};

/// The version that this build writes, and the only one that it reads.
const VERSION: u32 = 1;
/// Largest recording.
const BYTES_MAX: u64 = 256 << 20;

/// What stands in the file, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    /// Says what the file is.
    catena_recording: u32,
    pub(crate) function: Recorded,
    /// The start time and the seed: the only clock and randomness that the function had.
    started_at_ms: u64,
    /// As text: many programs that read JSON hold numbers as floating point.
    seed: String,
    pub(crate) hops_max: u32,
    /// What it had been given less of than others, at each step.
    #[serde(default, skip_serializing_if = "Lowered::is_nothing")]
    pub(crate) lowered: Lowered,
    pub(crate) input: Exact,
    /// In the order in which their outcomes were handed in.
    pub(crate) calls: Vec<Call>,
    pub(crate) emits: Vec<Exact>,
    pub(crate) console: Vec<Line>,
    /// How it ended; absent if the recording ends before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Outcome>,
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

/// A call and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) step: u32,
    /// Of a split: such as `.1.2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) branch: String,
    pub(crate) target: String,
    pub(crate) params: Exact,
    line: u32,
    column: u32,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    /// The outcome is not what the service answered: somebody put it in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    changed: bool,
}

/// A result or an exception.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Result(Exact),
    Error(ExactException),
}

/// A line of the console.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) step: u32,
    /// Of a split: such as `.1.2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    branch: String,
    pub(crate) at_us: u64,
    pub(crate) text: String,
}

impl From<&Result<Value, Exception>> for Outcome {
    fn from(outcome: &Result<Value, Exception>) -> Self {
        match outcome {
            Ok(value) => Self::Result(Exact(value.clone())),
            Err(why) => Self::Error(ExactException(why.clone())),
        }
    }
}

impl From<Outcome> for Result<Value, Exception> {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Result(Exact(value)) => Ok(value),
            Outcome::Error(ExactException(why)) => Err(why),
        }
    }
}

impl Line {
    fn of(said: &LogLine) -> Self {
        Self { step: said.step, branch: said.branch.to_string(), at_us: said.at_us, text: said.text.clone() }
    }

    pub(crate) fn shown(&self) -> LogLine {
        let branch = self.branch.parse().unwrap_or_default();
        let (node, text) = (HERE.to_owned(), self.text.clone());
        LogLine { step: self.step, node, at_us: self.at_us, text, branch, number: 0 }
    }
}

impl Recording {
    pub(crate) fn new(source: &Source, local: &Local, input: &Value) -> Self {
        let module = (source.kind == FunctionKind::Wasm).then(|| base64::encode(&source.bytes));
        let function = Recorded {
            name: source.name.clone(),
            hash: local.hash().to_string(),
            source: source.text().map(str::to_owned),
            module,
        };
        Self {
            catena_recording: VERSION,
            function,
            started_at_ms: local.start.started_at_ms,
            seed: local.start.seed.to_string(),
            hops_max: local.hops_max,
            lowered: local.lowered,
            input: Exact(input.clone()),
            calls: Vec::new(),
            emits: Vec::new(),
            console: Vec::new(),
            end: None,
        }
    }

    /// Notes what the function said.
    pub(crate) fn said(&mut self, said: &Said) {
        self.emits.extend(said.emits.iter().cloned().map(Exact));
        self.console.extend(said.lines.iter().map(Line::of));
    }

    /// Notes a call and its outcome.
    pub(crate) fn called(&mut self, of: &Pending, outcome: &Result<Value, Exception>, changed: bool) {
        self.calls.push(Call {
            step: of.step,
            branch: of.branch.clone(),
            target: of.target(),
            params: Exact(of.call.params.clone()),
            line: of.call.line,
            column: of.call.column,
            outcome: outcome.into(),
            changed,
        });
    }

    /// Notes the end.
    pub(crate) fn ended(&mut self, end: Option<&Result<Value, Exception>>) {
        self.end = end.map(Outcome::from);
    }

    /// The clock and randomness of the function.
    pub(crate) fn start(&self) -> Result<Start, Failure> {
        let seed = self.seed.parse().map_err(|_| bad("its seed is not a number"))?;
        Ok(Start { started_at_ms: self.started_at_ms, seed })
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

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
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

fn bad(why: &str) -> Failure {
    Failure::input("BadRecording", format!("not a recording: {why}"), "`catena run FILE --record OUT` makes one")
}
