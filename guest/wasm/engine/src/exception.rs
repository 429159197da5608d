//! JavaScript errors to the exceptions of the ABI, and back.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::{Decoder, Encoder};

use crate::decode::{self, Bad};
use crate::encode;
use crate::js::{self, Js, Kind, Name, Text, Value};
use crate::outbox::{Outbox, full};
use crate::position::{self, Position};

/// As many hosts as a host takes in a path.
const PATH_HOSTS_MAX: u32 = 256;
/// As many branches within branches as a host takes.
const BRANCH_DEPTH_MAX: u32 = 16;

/// What the engine itself has to say, such as about a source that it cannot take.
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) stack: String,
    pub(crate) at: Position,
    pub(crate) fault: &'static str,
}

impl Report {
    /// Says what the program's author can mend.
    pub(crate) fn of_guest(name: &str, message: &str) -> Self {
        Report {
            name: name.to_owned(),
            message: message.to_owned(),
            stack: String::new(),
            at: Position::UNKNOWN,
            fault: "guest",
        }
    }

    /// Says what the program's author cannot mend.
    pub(crate) fn of_node(name: &str, message: &str) -> Self {
        Report { fault: "node", ..Report::of_guest(name, message) }
    }
}

/// An exception that a call ended with becomes an `Error` without a trace, so that the `await` adds its own.
pub(crate) fn to_error(from: &mut Decoder<'_>) -> Result<Value, Bad> {
    let exception = decode::value(from)?;
    let error = js::error_without_trace()?;
    if !exception.is_object() {
        error.define(js::name(|n| &n.message), Value::string(&exception.to_text()?.get())?)?;
        return Ok(error);
    }
    let copied = [
        (js::name(|n| &n.name), js::name(|n| &n.name)),
        (js::name(|n| &n.message), js::name(|n| &n.message)),
        (js::name(|n| &n.params), js::name(|n| &n.params)),
        (js::name(|n| &n.path), js::name(|n| &n.path)),
        (js::name(|n| &n.fault), js::name(|n| &n.fault)),
        (js::name(|n| &n.target), js::name(|n| &n.target)),
        (js::name(|n| &n.step), js::name(|n| &n.step)),
        (js::name(|n| &n.branch), js::name(|n| &n.branch)),
        (js::name(|n| &n.unknown), js::name(|n| &n.unknown)),
        // The trace of the place where it happened; `stack` is that of the `await`.
        (js::name(|n| &n.stack), js::name(|n| &n.host_stack)),
    ];
    for (theirs, ours) in copied {
        let value = exception.get(theirs)?;
        if !value.is_undefined() {
            error.define(ours, value)?;
        }
    }
    Ok(error)
}

/// The event `threw` for a value that the program threw and nobody caught.
pub(crate) fn write_thrown(out: &mut Outbox, thrown: &Value) -> Result<(), encode::Trouble> {
    // The fields first, since the map's header counts them.
    let mut fields = Fields { out, count: 0 };
    let start = fields.out.mark();
    fields.text("name", &text_of(thrown, |n| &n.name).unwrap_or_else(|| "Error".to_owned()))?;
    if thrown.is_error() {
        fields.error(thrown)?;
    } else {
        fields.text("message", &plain_text(thrown))?;
        fields.optional("params", thrown)?;
    }
    let count = fields.count;
    out.insert(start, |e| e.array(2)?.u8(2)?.map(count)?.ok()).map_err(encode::Trouble::Full)?;
    out.count_event();
    Ok(())
}

/// The event `threw` for what the engine itself has to say.
pub(crate) fn write_report(e: &mut Encoder<&mut Outbox>, report: &Report) -> crate::outbox::Written<()> {
    let stack = !report.stack.is_empty();
    e.array(2)?.u8(2)?.map(5 + u64::from(stack))?;
    e.str("name")?.str(&report.name)?.str("message")?.str(&report.message)?;
    e.str("line")?.u32(report.at.line)?.str("column")?.u32(report.at.column)?;
    e.str("fault")?.str(report.fault)?;
    if stack {
        e.str("stack")?.str(&report.stack)?;
    }
    Ok(())
}

/// `String(value)`, whatever happens.
pub(crate) fn plain_text(value: &Value) -> String {
    match value.to_text() {
        Ok(text) => text.get().into_owned(),
        Err(_) => {
            drop(js::take_exception());
            "a value that has no text".to_owned()
        }
    }
}

fn quiet(value: Js<Value>) -> Value {
    value.unwrap_or_else(|_| {
        drop(js::take_exception());
        Value::UNDEFINED
    })
}

fn text_of(thrown: &Value, pick: impl FnOnce(&js::Names) -> &Name) -> Option<String> {
    if !thrown.is_error() {
        return None;
    }
    let value = quiet(thrown.get(js::name(pick)));
    let text: Option<Text> = value.is_string().then(|| value.to_text().ok()).flatten();
    text.map(|t| t.get().into_owned())
}

/// Whether a value is a list of names of hosts.
fn is_path(value: &Value) -> bool {
    is_list(value, PATH_HOSTS_MAX, Value::is_string)
}

/// Whether a value is the numbers of branches, each within the one before.
fn is_branch(value: &Value) -> bool {
    is_list(value, BRANCH_DEPTH_MAX, |number| matches!(number.kind(), Kind::Int(0..=0xffff)))
}

fn is_list(value: &Value, len_max: u32, of: impl Fn(&Value) -> bool) -> bool {
    let len = if value.is_array() { value.len().unwrap_or(0) } else { 0 };
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    (1..=len_max).contains(&len) && (0..len).all(|i| of(&quiet(value.get_index(i))))
}

struct Fields<'a> {
    out: &'a mut Outbox,
    count: u64,
}

impl Fields<'_> {
    fn text(&mut self, key: &str, value: &str) -> Result<(), encode::Trouble> {
        Encoder::new(&mut *self.out).str(key)?.str(value)?;
        self.count += 1;
        Ok(())
    }

    fn number(&mut self, key: &str, value: u32) -> Result<(), encode::Trouble> {
        Encoder::new(&mut *self.out).str(key)?.u32(value)?;
        self.count += 1;
        Ok(())
    }

    /// What says where a call failed, if it is of the kind that [`to_error`] gave it: a program may use these names as it likes.
    fn place(&mut self, error: &Value) -> Result<(), encode::Trouble> {
        let held = |pick: fn(&js::Names) -> &Name| quiet(error.get(js::name(pick)));
        let (path, branch) = (held(|n| &n.path), held(|n| &n.branch));
        if is_path(&path) {
            self.optional("path", &path)?;
        }
        if is_branch(&branch) {
            self.optional("branch", &branch)?;
        }
        if held(|n| &n.unknown).is_true() {
            Encoder::new(&mut *self.out).str("unknown")?.bool(true)?;
            self.count += 1;
        }
        if let Kind::Int(step @ 0..) = held(|n| &n.step).kind() {
            self.number("step", step.unsigned_abs())?;
        }
        for (key, text) in [("target", held(|n| &n.target)), ("fault", held(|n| &n.fault))] {
            if text.is_string() {
                self.optional(key, &text)?;
            }
        }
        Ok(())
    }

    /// A value, if there is one and it travels.
    fn optional(&mut self, key: &str, value: &Value) -> Result<(), encode::Trouble> {
        if value.is_undefined() {
            return Ok(());
        }
        let mark = self.out.mark();
        Encoder::new(&mut *self.out).str(key)?;
        match encode::value(self.out, value) {
            Ok(()) => self.count += 1,
            Err(encode::Trouble::Full(full)) => return Err(encode::Trouble::Full(full)),
            Err(trouble) => {
                if let encode::Trouble::Threw(_) = trouble {
                    drop(js::take_exception());
                }
                self.out.back_to(mark);
            }
        }
        Ok(())
    }

    fn error(&mut self, error: &Value) -> Result<(), encode::Trouble> {
        self.text("message", &text_of(error, |n| &n.message).unwrap_or_default())?;
        self.optional("params", &quiet(error.get(js::name(|n| &n.params))))?;
        self.place(error)?;
        let own = position::stack_of(error);
        let at = position::in_stack(&own);
        let stack: Vec<String> = text_of(error, |n| &n.host_stack).into_iter().chain([own]).collect();
        let stack = stack.join("\n");
        if !stack.is_empty() {
            self.text("stack", stack.trim_end())?;
        }
        if at != Position::UNKNOWN {
            self.number("line", at.line)?;
            self.number("column", at.column)?;
        }
        Ok(())
    }
}

impl Outbox {
    /// Writes something in front of what was written since `mark`.
    fn insert(
        &mut self,
        mark: crate::outbox::Mark,
        write: impl FnOnce(&mut Encoder<&mut Outbox>) -> crate::outbox::Written<()>,
    ) -> Result<(), crate::outbox::Full> {
        let before = self.mark();
        write(&mut Encoder::new(&mut *self)).map_err(full)?;
        self.rotate(mark, before);
        Ok(())
    }
}
