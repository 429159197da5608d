//! Why the command could not do what it was asked, for people and for programs.

use catena::Exception;
use catena_script::Spot;
use serde_json::json;

use crate::{
    advice,
    ending::{self, Ended, Ending},
    exit::Exit,
    output::printable,
    value::{Shown, compact},
};

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Found by the command itself.
    Own(Box<Own>),
    /// The chain or call ended with an exception.
    Threw(Box<Threw>),
    /// Somebody pressed Ctrl-C, sent SIGTERM, or closed the terminal.
    Interrupted,
    /// Whoever read standard output has gone: there is nobody to talk to.
    ReaderGone,
    /// All that there is to say has been said.
    Told(Exit),
}

/// A failure that the command itself found.
#[derive(Debug)]
pub(crate) struct Own {
    exit: Exit,
    /// Stable, for programs.
    name: &'static str,
    message: String,
    spot: Option<Spot>,
    help: String,
}

/// An exception, with what the command knows besides.
#[derive(Debug)]
pub(crate) struct Threw {
    pub(crate) exception: Exception,
    /// The line of the function, if it is known and at hand.
    pub(crate) spot: Option<Spot>,
    /// The chain that it ended; `None` for a plain call.
    pub(crate) ended: Option<Ended>,
    /// Somebody here asked for its end.
    pub(crate) cancelled: bool,
}

impl Failure {
    /// Wrong usage, or a wrong input.
    pub(crate) fn input(name: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::own(Exit::BadInput, name, message, help)
    }

    /// A function that is run again does not do what it did.
    pub(crate) fn another_way(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::own(Exit::Exception, "AnotherWay", message, help)
    }

    /// The node to connect to cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::own(Exit::Unreachable, "CannotReach", message, help)
    }

    /// A node cannot start.
    pub(crate) fn cannot_start(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::own(Exit::CannotStart, "CannotStart", message, help)
    }

    /// A call ended with an exception.
    pub(crate) fn threw(exception: Exception) -> Self {
        Self::Threw(Box::new(Threw { exception, spot: None, ended: None, cancelled: false }))
    }

    fn own(exit: Exit, name: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Own(Box::new(Own { exit, name, message: message.into(), spot: None, help: help.into() }))
    }

    /// Says where in the user's file, if that is known.
    pub(crate) fn at(mut self, spot: impl Into<Option<Spot>>) -> Self {
        match &mut self {
            Self::Own(own) => own.spot = spot.into(),
            Self::Threw(threw) => threw.spot = spot.into(),
            Self::Interrupted | Self::ReaderGone | Self::Told(_) => {}
        }
        self
    }

    /// Puts a place in front of the message, for a line that is shown without its file.
    pub(crate) fn saying_before(mut self, place: &str) -> Self {
        if let Self::Own(own) = &mut self {
            own.message = format!("{place}: {}", own.message);
        }
        self
    }

    /// The code to end with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Own(own) => own.exit,
            Self::Threw(threw) if threw.cancelled => Exit::Interrupted,
            Self::Threw(_) => Exit::Exception,
            Self::Interrupted => Exit::Interrupted,
            Self::ReaderGone => Exit::Ok,
            Self::Told(exit) => *exit,
        }
    }

    /// How the chain ended; a failure of the command's own did nothing.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Threw(threw) => Ending::of(&threw.exception),
            _ => Ending::Failed,
        }
    }

    /// For people: what, where, and what to do next. `None` if there is nothing to say.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Own(own) => Some(own.text()),
            Self::Threw(threw) => Some(threw.text()),
            Self::Interrupted => Some("interrupted: what still comes of it is thrown away".to_owned()),
            Self::ReaderGone | Self::Told(_) => None,
        }
    }

    /// For programs, under the key `error`.
    pub(crate) fn json(&self) -> Option<serde_json::Value> {
        match self {
            Self::Own(own) => Some(own.json()),
            Self::Threw(threw) => Some(threw.json()),
            Self::Interrupted => Some(json!({ "name": "Interrupted", "message": "interrupted" })),
            Self::ReaderGone | Self::Told(_) => None,
        }
    }
}

impl Own {
    fn text(&self) -> String {
        headline(self.spot.as_ref(), &self.message) + "\nhelp: " + &printable(&self.help)
    }

    fn json(&self) -> serde_json::Value {
        let mut error = json!({ "name": self.name, "message": self.message, "help": self.help });
        put_spot(&mut error, self.spot.as_ref());
        error
    }
}

impl Threw {
    fn text(&self) -> String {
        let why = &self.exception;
        let mut text = headline(self.spot.as_ref(), &format!("{}: {}", why.name, why.message));
        let mut line = |what: &str, value: &str| text.push_str(&format!("\n  {what:<7} {}", printable(value)));
        line("fault", advice::whose(why.fault));
        if let Some(target) = &why.target {
            line("calling", target);
        }
        // An exception that passed through the function may have lost its step: its path then says more than a step of 0. A plain call has no step.
        if why.step > 0 || (self.ended.is_some() && why.path.len() == 1) {
            line("step", &why.step.to_string());
        }
        if let Some(ended) = self.ended {
            line("ending", &ending::sentence(why, ended));
        }
        if !why.path.is_empty() {
            line("path", &why.path.join(" > "));
        }
        if let Some(params) = &why.params {
            line("params", &compact(params));
        }
        if self.spot.is_none() && why.line > 0 {
            line("line", &format!("{}, column {}", why.line, why.column));
        }
        text + "\nhelp: " + &printable(&advice::next(why))
    }

    fn json(&self) -> serde_json::Value {
        let why = &self.exception;
        let mut error = json!({
            "name": why.name,
            "message": why.message,
            "fault": why.fault.as_str(),
            "target": why.target,
            "ending": Ending::of(why),
            "step": why.step,
            "path": why.path,
            "stack": why.stack,
            "help": advice::next(why),
        });
        if let Some(params) = &why.params {
            error["params"] = serde_json::to_value(Shown(params)).unwrap_or_default();
        }
        if let Some(Ended { chain, last_step }) = self.ended {
            error["key"] = ending::key(chain, why.step);
            error["last_step"] = last_step.into();
        }
        if why.line > 0 {
            error["line"] = why.line.into();
            error["column"] = why.column.into();
        }
        put_spot(&mut error, self.spot.as_ref());
        error
    }
}

/// What is wrong, after its place in the user's file and before the lines there.
fn headline(spot: Option<&Spot>, message: &str) -> String {
    let place = spot.map(|spot| spot.name() + ": ").unwrap_or_default();
    place + "error: " + &printable(message) + &spot.map(Spot::lines).unwrap_or_default()
}

fn put_spot(error: &mut serde_json::Value, spot: Option<&Spot>) {
    if let Some(spot) = spot {
        error["file"] = spot.file.as_str().into();
        error["line"] = spot.line.into();
        error["column"] = spot.column.into();
    }
}
