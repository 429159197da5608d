//! The debugger's commands.

use catena::Value;

use crate::{failure::Failure, nearest::did_you_mean, value};

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Step,
    Continue,
    Set(Value),
    Throw { name: String, message: String },
    Back(Option<usize>),
    Show,
    List,
    Quit,
    Help,
}

/// A command: its word, its arguments, what it does, and how its arguments are read.
pub(crate) type Known = (&'static str, &'static str, &'static str, fn(&str) -> Result<Command, Failure>);

/// Every command. The first letter is enough, and `cont` for `continue`.
pub(crate) const COMMANDS: [Known; 9] = [
    ("step", "", "make the call; again: hand in its result, and go on to the next call", |_| Ok(Command::Step)),
    ("continue", "", "make all calls, to the end", |_| Ok(Command::Continue)),
    ("set", "JSON", "answer with this instead, whether the call was made or not", |json| {
        value::inline(json).map(Command::Set)
    }),
    ("throw", "NAME MESSAGE", "answer with this exception instead", throw),
    ("back", "[N]", "to the step before, or to step N; what calls have done stays done", back),
    ("show", "", "all there is to know of this step", |_| Ok(Command::Show)),
    ("list", "", "the steps so far", |_| Ok(Command::List)),
    ("quit", "", "end the session", |_| Ok(Command::Quit)),
    ("help", "", "this list", |_| Ok(Command::Help)),
];

/// A line for each command, for people.
pub(crate) fn list() -> String {
    let line = |(name, takes, does, _)| format!("  {:<20} {does}", format!("{name} {takes}"));
    COMMANDS.map(line).join("\n")
}

impl Command {
    /// Parses a line; `None` if it is empty or a comment, which begins with `#`.
    pub(crate) fn read(line: &str) -> Result<Option<Self>, Failure> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let known = COMMANDS.iter().find(|(name, ..)| *name == word || abbreviates(word, name));
        let Some((name, takes, _, parse)) = known else {
            let names = COMMANDS.iter().map(|(name, ..)| *name);
            let help = did_you_mean(word, names, "`help` lists the commands");
            return Err(Failure::input("BadCommand", format!("{word:?} is no command"), help));
        };
        if takes.is_empty() && !rest.is_empty() {
            return Err(Failure::input("BadCommand", format!("{name} takes nothing more"), format!("write {name}")));
        }
        parse(rest).map(Some)
    }
}

fn throw(rest: &str) -> Result<Command, Failure> {
    let (name, message) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.is_empty() {
        let help = "write throw NAME MESSAGE, such as throw NodeLost on purpose";
        return Err(Failure::input("BadCommand", "throw needs the exception's name", help));
    }
    Ok(Command::Throw { name: name.to_owned(), message: message.trim().to_owned() })
}

fn back(rest: &str) -> Result<Command, Failure> {
    if rest.is_empty() {
        return Ok(Command::Back(None));
    }
    let wrong = |_| Failure::input("BadCommand", format!("{rest:?} is no step"), "write back, or back N");
    rest.parse::<usize>().map(|step| Command::Back(Some(step))).map_err(wrong)
}

/// Whether `word` is a prefix of `name` and of no command listed before it (`s` is step).
fn abbreviates(word: &str, name: &str) -> bool {
    let first = COMMANDS.iter().map(|(name, ..)| *name).find(|name| name.starts_with(word));
    first == Some(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[track_caller]
    fn check(line: &str, command: Option<Command>) {
        assert_eq!(Command::read(line).unwrap(), command);
    }

    #[test]
    fn commands_are_read() {
        check("step", Some(Command::Step));
        check(" s ", Some(Command::Step));
        check("cont", Some(Command::Continue));
        check("set {\"a\": 1}", Some(Command::Set(value::inline("{\"a\":1}").unwrap())));
        let thrown = Command::Throw { name: "NodeLost".into(), message: "on purpose".into() };
        check("throw NodeLost  on purpose", Some(thrown));
        check("back", Some(Command::Back(None)));
        check("back 12", Some(Command::Back(Some(12))));
        check("sh", Some(Command::Show));
        check("", None);
        check("# step", None);
    }

    #[test]
    fn what_is_no_command_is_told() {
        for (line, said) in [
            ("stop", "did you mean step?"),
            ("set", "not JSON"),
            ("set nul", "not JSON"),
            ("throw", "the exception's name"),
            ("back x", "no step"),
            ("step 3", "step takes nothing more"),
        ] {
            let text = Command::read(line).unwrap_err().text().unwrap();
            assert!(text.contains(said), "{line}: {text}");
        }
    }
}
