//! The only place that writes to standard output (data) and, with `progress`, to standard error (talk).

use std::io::{self, IsTerminal, Write};

use catena_script::is_hidden;
pub(crate) use catena_script::printable;
use clap::ValueEnum;
use comfy_table::{Cell, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A way to paint a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
}

impl Paint {
    /// The text between the terminal's codes (ECMA-48, SGR).
    pub(crate) fn on(self, text: &str) -> String {
        let code = match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "1;31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Where the command writes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// For programs.
    pub(crate) json: bool,
    /// Standard output is a terminal.
    pub(crate) out_tty: bool,
    /// Standard error is a terminal.
    pub(crate) err_tty: bool,
    out_fancy: bool,
    /// Colour and drawing characters are welcome on standard error.
    pub(crate) err_fancy: bool,
}

impl Output {
    pub(crate) fn new(json: bool, color: Color) -> Self {
        let (out_tty, err_tty) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let fancy = |tty: bool| match color {
            Color::Auto => tty && !refused,
            Color::Always => true,
            Color::Never => false,
        };
        Self { json, out_tty, err_tty, out_fancy: fancy(out_tty), err_fancy: fancy(err_tty) }
    }

    /// Paints what goes to standard output.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.out_fancy { paint.on(text) } else { text.to_owned() }
    }

    /// Paints what goes to standard error.
    pub(crate) fn paint_talk(&self, paint: Paint, text: &str) -> String {
        if self.err_fancy { paint.on(text) } else { text.to_owned() }
    }

    /// Writes data, and a line feed.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes bytes as they are.
    #[expect(clippy::unused_self, reason = "whoever writes has been given the right to")]
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|why| match why.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::input("CannotWrite", format!("standard output: {why}"), "see that there is room for it"),
        })
    }

    /// Writes one JSON value on one line.
    pub(crate) fn json_line<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Failure> {
        self.data(&escaped(serde_json::to_string(value).map_err(|why| cannot_show(&why))?))
    }

    /// Writes one JSON value, laid out for people.
    pub(crate) fn json_pretty<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Failure> {
        self.data(&escaped(serde_json::to_string_pretty(value).map_err(|why| cannot_show(&why))?))
    }

    /// Writes a table without borders, so that other programs can take it apart, and without what would command a terminal; on a terminal it keeps to the terminal's width.
    pub(crate) fn table<const N: usize>(
        &self,
        head: [&str; N],
        rows: impl Iterator<Item = [String; N]>,
    ) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(if self.out_tty {
            ContentArrangement::Dynamic
        } else {
            ContentArrangement::Disabled
        });
        table.set_header(head.map(|name| Cell::new(name.to_uppercase())));
        table.add_rows(rows.map(|row| row.map(|cell| Cell::new(printable(&cell)))));
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let lines = lines.iter().enumerate().map(|(index, line)| {
            let line = line.strip_prefix(' ').unwrap_or(line);
            if index == 0 { self.paint(Paint::Bold, line) } else { line.to_owned() }
        });
        self.data(&lines.collect::<Vec<_>>().join("\n"))
    }

    /// Says something to people. Nobody there to hear it is no failure.
    #[expect(clippy::unused_self, reason = "whoever talks has been given the right to")]
    pub(crate) fn talk(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Says the same to programs, as data, or to people.
    pub(crate) fn say<T: Serialize>(
        &self,
        json: impl FnOnce() -> T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            return self.json_line(&json());
        }
        self.talk(&text());
        Ok(())
    }

    /// Says something to people that they should look at.
    pub(crate) fn warn(&self, text: &str) {
        self.talk(&format!("{} {text}", self.paint_talk(Paint::Yellow, "warning:")));
    }

    /// Says why the command ends: to people on standard error, to programs on standard output.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            if let Some(error) = failure.json() {
                let _ = self.json_line(&serde_json::json!({ "error": error }));
            }
        } else if let Some(text) = failure.text() {
            self.talk(&self.paint_failure(&text));
        }
    }

    /// Says what failed beside the work itself, whose outcome has standard output: on standard error, to programs too. Only its code is left of it.
    pub(crate) fn beside(&self, done: Result<(), Failure>) -> Result<(), Failure> {
        done.map_err(|why| {
            if let Some(text) = why.text() {
                self.talk(&self.paint_failure(&text));
            }
            Failure::Told(why.exit())
        })
    }

    fn paint_failure(&self, text: &str) -> String {
        let text = text.replacen("error:", &self.paint_talk(Paint::Red, "error:"), 1);
        match text.rfind("\nhelp:") {
            Some(at) => format!("{}\n{}{}", &text[..at], self.paint_talk(Paint::Green, "help:"), &text[at + 6..]),
            None => text,
        }
    }
}

fn cannot_show(why: &serde_json::Error) -> Failure {
    let help = "answer with less depth, and in plain CBOR; `catena run --record FILE` keeps the value byte for byte";
    Failure::input("CannotShow", format!("the value cannot be shown as JSON: {why}"), help)
}

/// The same JSON, with characters that would command a terminal as escapes: they can only stand in strings, so what it says does not change.
pub(crate) fn escaped(json: String) -> String {
    if !json.contains(is_hidden) {
        return json;
    }
    let escape = |c: char| if is_hidden(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same_without_commanding() {
        assert_eq!(escaped("\"a\u{9b}2J\u{202e}\"".to_owned()), "\"a\\u009b2J\\u202e\"");
        assert_eq!(escaped("{\n}".to_owned()), "{\n}");
    }

    #[test]
    fn a_failure_is_painted_where_it_is_welcome() {
        let output = Output { json: false, out_tty: false, err_tty: true, out_fancy: false, err_fancy: true };
        let text = output.paint_failure("a:1:2: error: no help: here\nhelp: do that");
        assert_eq!(text, "a:1:2: \u{1b}[1;31merror:\u{1b}[0m no help: here\n\u{1b}[32mhelp:\u{1b}[0m do that");
    }
}
