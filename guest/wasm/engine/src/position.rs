//! Line and column out of the engine's stack traces.

use alloc::format;
use alloc::string::String;

use crate::engine;
use crate::js::{self, Js, Kind, Name, Text, Value};

/// A place in the program's source, counted from 1; 0 where unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Position {
    pub(crate) const UNKNOWN: Position = Position { line: 0, column: 0 };
}

/// The topmost place of the program itself in a trace such as `    at f (mail.js:3:20)`.
pub(crate) fn in_stack(stack: &str) -> Position {
    engine::with_module_name(|name| stack.lines().find_map(|line| in_line(line, name)).unwrap_or(Position::UNKNOWN))
}

fn in_line(line: &str, name: &str) -> Option<Position> {
    let after = &line[line.rfind(name)? + name.len()..];
    let mut parts = after.strip_prefix(':')?.trim_end_matches(')').splitn(2, ':');
    let line = parts.next()?.parse().ok()?;
    let column = parts.next().and_then(|c| c.parse().ok()).unwrap_or(0);
    Some(Position { line, column })
}

/// Where an error was made or first thrown.
pub(crate) fn of_error(error: &Value) -> Position {
    in_stack(&stack_of(error))
}

/// The trace of an error, without the frames of its own constructor; empty if there is none.
pub(crate) fn stack_of(error: &Value) -> String {
    if !error.is_error() {
        return String::new();
    }
    let Some(stack) = text_at(error, js::name(|n| &n.stack)) else { return String::new() };
    let stack = stack.get();
    let mut rest = stack.trim_end();
    if let Some(class) = class_of(error) {
        let own = format!("    at {class} (");
        while let Some((_, below)) = rest.split_once('\n').filter(|(first, _)| first.starts_with(&own)) {
            rest = below;
        }
    }
    String::from(rest)
}

fn class_of(error: &Value) -> Option<String> {
    let constructor = quiet(error.get(js::name(|n| &n.constructor)))?;
    if !constructor.is_object() {
        return None;
    }
    text_at(&constructor, js::name(|n| &n.name)).map(|name| name.get().into_owned())
}

fn text_at(object: &Value, name: Name) -> Option<Text> {
    let value = quiet(object.get(name))?;
    if value.is_string() { value.to_text().ok() } else { None }
}

fn quiet(value: Js<Value>) -> Option<Value> {
    value.map_err(|_| drop(js::take_exception())).ok()
}

/// Where a function's definition begins.
pub(crate) fn of_function(function: &Value) -> Position {
    let number = |pick: fn(&js::Names) -> &Name| match quiet(function.get(js::name(pick))).as_ref().map(Value::kind) {
        Some(Kind::Int(n)) => n.max(0).unsigned_abs(),
        _ => 0,
    };
    Position { line: number(|n| &n.line_number), column: number(|n| &n.column_number) }
}

/// Where the program is now: the caller of the native function that runs.
pub(crate) fn here() -> Js<Position> {
    let error = js::error_here()?;
    let stack = text_at(&error, js::name(|n| &n.stack));
    Ok(stack.map_or(Position::UNKNOWN, |text| in_stack(&text.get())))
}
