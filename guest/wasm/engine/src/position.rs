//! Line and column out of the engine's stack traces.


use crate::engine;
use crate::js::{self, ErrorClass, Js, Value};

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
    engine::with_module_name(|name| {
        stack.lines().find_map(|line| in_line(line, name)).unwrap_or(Position::UNKNOWN)
    })
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
    if !error.is_error() {
        return Position::UNKNOWN;
    }
    match stack_of(error) {
        Some(text) => in_stack(&text.get()),
        None => Position::UNKNOWN,
    }
}

/// The trace of an error, if it has one that is text.
pub(crate) fn stack_of(error: &Value) -> Option<js::Text> {
    let stack = match error.get(js::name(|n| &n.stack)) {
        Ok(stack) => stack,
        Err(_) => {
            drop(js::take_exception());
            return None;
        }
    };
    if !stack.is_string() {
        return None;
    }
    stack.to_text().ok()
}

/// Where the program is now: the caller of the native function that runs.
pub(crate) fn here() -> Js<Position> {
    let error = js::error(ErrorClass::Error, "")?;
    Ok(of_error(&error))
}
