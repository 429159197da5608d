//! What the debugger says: to people on standard error, to programs as JSON lines on standard output.

use catena::{Exception, Value};
use serde_json::json;

use super::{Answer, COMMANDS, Stop};
use crate::{
    commands::{replay::brief, run::emitted},
    console::Console,
    failure::{Failure, Threw},
    local::{Pending, Said},
    output::{Output, Paint, printable},
    report::Head,
    source::Source,
    value::{OneKey, Shown},
};

/// Says what happens.
pub(crate) struct Teller<'a> {
    pub(crate) source: &'a Source,
    pub(crate) output: &'a Output,
    pub(crate) console: Console,
}

impl Teller<'_> {
    /// What the function said, as it said it.
    pub(super) fn said(&mut self, said: &Said) -> Result<(), Failure> {
        for line in &said.lines {
            if self.output.json {
                let line = json!({ "step": line.step, "at_us": line.at_us, "text": line.text });
                self.output.json_line(&json!({ "log": line }))?;
            } else {
                self.console.line(line)?;
            }
        }
        said.emits.iter().try_for_each(|value| emitted(value, self.output))
    }

    /// Where the function is.
    pub(super) fn stopped(&self, number: usize, stop: &Stop) -> Result<(), Failure> {
        match stop.call() {
            Some(call) if self.output.json => {
                self.output.json_line(&json!({ "stopped": self.call_json(number, call, stop) }))
            }
            Some(call) => {
                self.output.talk(&self.call_text(number, call));
                Ok(())
            }
            None => stop.state.end().map_or(Ok(()), |end| self.ended(end)),
        }
    }

    fn ended(&self, end: &Result<Value, Exception>) -> Result<(), Failure> {
        if self.output.json {
            let ended = end.as_ref().map_err(|why| self.failure(why));
            return self.output.json_line(&OneKey("ended", Head::of(ended.as_ref().copied())));
        }
        self.output.talk(&format!("{} {}", self.output.paint_talk(Paint::Bold, "ended:"), outcome(end)));
        Ok(())
    }

    /// What will be handed in.
    pub(super) fn answered(&self, number: usize, answer: &Answer) -> Result<(), Failure> {
        if self.output.json {
            return self.output.json_line(&json!({ "answered": answer_json(number, answer) }));
        }
        let by = if answer.changed { " (by you)" } else { "" };
        self.output.talk(&format!("  = {}{by}", outcome(&answer.outcome)));
        Ok(())
    }

    /// All of one step.
    pub(super) fn show(&self, number: usize, stop: &Stop) -> Result<(), Failure> {
        self.stopped(number, stop)?;
        if !self.output.json {
            if let Some(call) = stop.call() {
                self.output.talk(&format!("  params {}", Shown(&call.call.params).compact()));
            }
            self.output.talk(&format!("  state  {} bytes of continuation", stop.state.bytes()));
            for also in stop.state.calls().skip(1) {
                self.output.talk(&format!("  also waiting: step {} {}", also.place(), printable(&also.target())));
            }
        }
        stop.answer.as_ref().map_or(Ok(()), |answer| self.answered(number, answer))
    }

    /// All steps, the last one being where the function is.
    pub(super) fn list(&self, history: &[Stop]) -> Result<(), Failure> {
        let mut steps = Vec::new();
        for (index, stop) in history.iter().enumerate() {
            let number = index + 1;
            let Some(call) = stop.call() else { continue };
            if self.output.json {
                let mut step = self.call_json(number, call, stop);
                step["answer"] =
                    stop.answer.as_ref().map_or(serde_json::Value::Null, |answer| answer_json(number, answer));
                steps.push(step);
                continue;
            }
            let mark = if number == history.len() { ">" } else { " " };
            let answer =
                stop.answer.as_ref().map(|answer| format!(" = {}", outcome(&answer.outcome))).unwrap_or_default();
            self.output.talk(&format!("{mark} {number:>3}  {}{answer}", call_brief(call)));
        }
        if self.output.json { self.output.json_line(&json!({ "list": steps })) } else { Ok(()) }
    }

    pub(super) fn help(&self) -> Result<(), Failure> {
        if self.output.json {
            let commands = COMMANDS.map(|(name, takes, does)| json!({ "command": name, "takes": takes, "does": does }));
            return self.output.json_line(&json!({ "help": commands }));
        }
        for (name, takes, does) in COMMANDS {
            self.output.talk(&format!("  {:<20} {does}", format!("{name} {takes}")));
        }
        Ok(())
    }

    /// Why a command was not obeyed.
    pub(crate) fn refuse(&self, why: &str) -> Result<(), Failure> {
        if self.output.json {
            return self.output.json_line(&json!({ "refused": why }));
        }
        self.output.talk(&printable(why));
        Ok(())
    }

    /// The exception with which the function ended.
    pub(crate) fn failure(&self, why: &Exception) -> Failure {
        let spot = self.source.spot(why);
        Failure::Threw(Box::new(Threw { exception: why.clone(), spot, ended: None, cancelled: false }))
    }

    fn call_text(&self, number: usize, call: &Pending) -> String {
        let spot = self.source.at(call.call.line, call.call.column);
        let place = spot.as_ref().map(|spot| format!("  {}", spot.name())).unwrap_or_default();
        let lines = spot.map(|spot| spot.lines()).unwrap_or_default();
        let number = self.output.paint_talk(Paint::Bold, &format!("#{number}"));
        format!("{number} {}{place}{lines}", call_brief(call))
    }

    fn call_json(&self, number: usize, call: &Pending, stop: &Stop) -> serde_json::Value {
        json!({
            "number": number,
            "step": call.step,
            "branch": call.branch,
            "target": call.target(),
            "params": Shown(&call.call.params),
            "line": call.call.line,
            "column": call.call.column,
            "waiting": stop.state.calls().count(),
            "continuation_bytes": stop.state.bytes(),
        })
    }
}

fn call_brief(call: &Pending) -> String {
    let branch = if call.branch.is_empty() { String::new() } else { format!("branch {} ", call.branch) };
    format!("{branch}step {} {}({})", call.step, printable(&call.target()), brief(&call.call.params))
}

fn answer_json(number: usize, answer: &Answer) -> serde_json::Value {
    let changed = answer.changed;
    match &answer.outcome {
        Ok(value) => json!({ "number": number, "result": Shown(value), "changed": changed }),
        Err(why) => {
            let error = json!({ "name": why.name, "message": why.message, "unknown": why.unknown });
            json!({ "number": number, "error": error, "changed": changed })
        }
    }
}

fn outcome(outcome: &Result<Value, Exception>) -> String {
    match outcome {
        Ok(value) => brief(value),
        Err(why) => {
            let unknown = if why.unknown { " (whether it took effect is unknown)" } else { "" };
            format!("throws {}: {}{unknown}", printable(&why.name), printable(&why.message))
        }
    }
}
