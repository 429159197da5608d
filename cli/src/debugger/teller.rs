//! What the debugger says: to people on standard error, to programs as JSON lines on standard output.

use catena::{Exception, LogLine, Value};
use serde_json::json;

use super::{
    Answer, Stop,
    command::{self, COMMANDS},
    way::Open,
};
use crate::{
    commands::replay::brief,
    console::Console,
    failure::Failure,
    output::{Output, Paint, printable},
    report::Head,
    source::Source,
    value::{OneKey, Shown, compact},
};

/// Reports what happens in a session.
pub(crate) struct Teller<'a> {
    pub(crate) source: &'a Source,
    pub(crate) output: &'a Output,
    pub(crate) console: Console,
}

impl Teller<'_> {
    /// A line that the function logged.
    pub(super) fn logged(&mut self, line: &LogLine) -> Result<(), Failure> {
        if self.output.json {
            let line = json!({ "step": line.step, "at_us": line.at_us, "text": line.text });
            return self.output.json_line(&json!({ "log": line }));
        }
        self.console.line(line);
        Ok(())
    }

    /// Reports where the function has stopped; with the bytes of its state, if given, and then in full.
    pub(super) fn stopped(
        &self,
        number: usize,
        stop: &Stop,
        end: Option<&Result<Value, Exception>>,
        state_bytes: Option<usize>,
    ) -> Result<(), Failure> {
        let Some(call) = &stop.call else {
            return end.map_or_else(|| self.under_way(number), |end| self.ended(end));
        };
        if self.output.json {
            let mut told = call_json(number, call, stop);
            if let Some(bytes) = state_bytes {
                told["continuation_bytes"] = bytes.into();
            }
            return self.output.json_line(&json!({ "stopped": told }));
        }
        self.output.talk(&self.call_text(number, call));
        let Some(bytes) = state_bytes else { return Ok(()) };
        self.output.talk(&format!("  params {}", compact(&call.asked.params)));
        self.output.talk(&format!("  state  {bytes} bytes of continuation"));
        stop.also.iter().for_each(|also| self.output.talk(&format!("  also waiting: {}", also.name())));
        Ok(())
    }

    fn under_way(&self, number: usize) -> Result<(), Failure> {
        let text = || format!("#{number} the function is under way; `step` waits for its next call");
        self.output.say(|| json!({ "under_way": { "number": number } }), text)
    }

    fn ended(&self, end: &Result<Value, Exception>) -> Result<(), Failure> {
        let head = end.as_ref().map_err(|why| self.source.threw(why.clone()));
        let ended = || format!("{} {}", self.output.paint_talk(Paint::Bold, "ended:"), outcome(end));
        self.output.say(|| OneKey("ended", Head::of(head.as_ref().copied())), ended)
    }

    /// Reports the outcome that will be handed in.
    pub(super) fn answered(&self, number: usize, answer: &Answer) -> Result<(), Failure> {
        let by = if answer.changed { " (by you)" } else { "" };
        let answered = || json!({ "answered": answer_json(number, answer) });
        self.output.say(answered, || format!("  = {}{by}", outcome(&answer.outcome)))
    }

    /// Lists all steps; the function waits at the last one.
    pub(super) fn list(&self, history: &[Stop]) -> Result<(), Failure> {
        let steps = || history.iter().zip(1..).filter_map(|(stop, number)| Some((number, stop, stop.call.as_ref()?)));
        let json = |(number, stop, call): (usize, &Stop, &Open)| {
            let mut step = call_json(number, call, stop);
            step["answer"] = stop.answer.as_ref().map(|answer| answer_json(number, answer)).into();
            step
        };
        let text = |(number, stop, call): (usize, &Stop, &Open)| {
            let mark = if number == history.len() { ">" } else { " " };
            let answer = stop.answer.as_ref().map(|answer| format!(" = {}", outcome(&answer.outcome)));
            format!("{mark} {number:>3}  {}{}", call_brief(call), answer.unwrap_or_default())
        };
        if self.output.json {
            return self.output.json_line(&json!({ "list": steps().map(json).collect::<Vec<_>>() }));
        }
        steps().map(text).for_each(|step| self.output.talk(&step));
        Ok(())
    }

    pub(super) fn help(&self) -> Result<(), Failure> {
        let json = |(name, takes, does, _)| json!({ "command": name, "takes": takes, "does": does });
        self.output.say(|| json!({ "help": COMMANDS.map(json) }), command::list)
    }

    /// Why a command was not obeyed.
    pub(crate) fn refuse(&self, why: &str) -> Result<(), Failure> {
        self.output.say(|| json!({ "refused": why }), || printable(why))
    }

    fn call_text(&self, number: usize, call: &Open) -> String {
        let spot = self.source.at(call.asked.line, call.asked.column);
        let place = spot.as_ref().map(|spot| format!("  {}", spot.name())).unwrap_or_default();
        let lines = spot.map(|spot| spot.lines()).unwrap_or_default();
        let number = self.output.paint_talk(Paint::Bold, &format!("#{number}"));
        format!("{number} {}{place}{lines}", call_brief(call))
    }
}

fn call_json(number: usize, call: &Open, stop: &Stop) -> serde_json::Value {
    json!({
        "number": number,
        "step": call.step,
        "branch": call.branch.to_string(),
        "target": call.asked.target(),
        "params": Shown(&call.asked.params),
        "line": call.asked.line,
        "column": call.asked.column,
        "waiting": stop.also.len() + 1,
    })
}

fn call_brief(call: &Open) -> String {
    let branch = if call.branch.is_root() { String::new() } else { format!("branch {} ", call.branch) };
    format!("{branch}step {} {}({})", call.step, printable(&call.asked.target()), brief(&call.asked.params))
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
