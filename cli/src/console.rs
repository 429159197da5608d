//! The virtual console (rpc-chains section 3.7): what a chain's function logs, wherever it is, comes out here.
//!
//! Lines arrive with the chain's answers and heartbeats, each after the lines that it may have been a response to; lines of branches that run side by
//! side arrive in no fixed order.

use std::{fs::File, io::Write, path::PathBuf};

use catena::{Branch, LogLine};
use clap::{Args, ValueHint};

use crate::{
    failure::Failure,
    output::{Output, Paint, printable},
};

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// To people.
    Stderr,
    /// Nowhere.
    Off,
    /// Into a file, which is truncated first.
    File(PathBuf),
}

/// The `--console` flag.
#[derive(Clone, Debug, Args)]
pub(crate) struct Destination {
    /// Where to write what the function logs: stderr, off, or a file
    #[arg(long, value_name = "WHERE", default_value = "stderr", value_hint = ValueHint::FilePath, value_parser = place)]
    pub(crate) console: Where,
}

/// `stderr`, `off`, or a file.
fn place(text: &str) -> Result<Where, String> {
    match text {
        "stderr" => Ok(Where::Stderr),
        "off" => Ok(Where::Off),
        "" => Err("write stderr, off, or the name of a file".to_owned()),
        file => Ok(Where::File(file.into())),
    }
}

/// The console of one chain.
pub(crate) struct Console {
    to: To,
    began_at_us: u64,
    output: Output,
    written: Result<(), Failure>,
}

enum To {
    Stderr,
    Nowhere,
    File(File, PathBuf),
}

impl Console {
    /// `began_at_us`: the origin of the times shown, in microseconds since the Unix epoch.
    pub(crate) fn open(place: &Where, began_at_us: u64, output: &Output) -> Result<Self, Failure> {
        let to = match place {
            Where::Stderr => To::Stderr,
            Where::Off => To::Nowhere,
            Where::File(path) => match File::create(path) {
                Ok(file) => To::File(file, path.clone()),
                Err(why) => return Err(cannot_write(path, &why)),
            },
        };
        Ok(Self { to, began_at_us, output: *output, written: Ok(()) })
    }

    /// Writes one line: its node, its step, its time by that node's clock, and its text. A file that takes no more ends nothing but itself.
    pub(crate) fn line(&mut self, line: &LogLine) {
        let step = step_of(line.step, &line.branch);
        let from = format!("[{} {step} {}]", printable(&line.node), since(self.began_at_us, line.at_us));
        let text = printable(&line.text);
        match &mut self.to {
            To::Stderr => self.output.talk(&format!("{} {text}", self.output.paint_talk(Paint::Dim, &from))),
            To::Nowhere => {}
            To::File(file, path) => {
                if let Err(why) = file.write_all(format!("{from} {text}\n").as_bytes()) {
                    self.written = self.output.beside(Err(cannot_write(path, &why)));
                    self.to = To::Nowhere;
                }
            }
        }
    }

    /// Whether each line could be written.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.written
    }
}

/// A step as people read it: `3`, or `3 of branch 1.2`.
pub(crate) fn step_of(step: u32, branch: &Branch) -> String {
    if branch.is_root() {
        step.to_string()
    } else {
        format!("{step} of branch {}", branch.to_string().trim_start_matches('.'))
    }
}

/// Clocks of different machines differ, so a line may seem older than its chain.
fn since(began_at_us: u64, at_us: u64) -> String {
    let (sign, us) = match at_us.checked_sub(began_at_us) {
        Some(us) => ('+', us),
        None => ('-', began_at_us - at_us),
    };
    format!("{sign}{}.{:03} s", us / 1_000_000, us % 1_000_000 / 1_000)
}

fn cannot_write(path: &std::path::Path, why: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {why}", path.display());
    Failure::input("CannotWrite", message, "name another file with --console FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_beginning() {
        assert_eq!(since(1_000_000, 2_234_567), "+1.234 s");
        assert_eq!(since(1_000_000, 1_000_000), "+0.000 s");
        assert_eq!(since(2_500_000, 1_000_000), "-1.500 s");
    }

    #[test]
    fn a_place_is_a_word_or_a_file() {
        assert_eq!(place("stderr"), Ok(Where::Stderr));
        assert_eq!(place("off"), Ok(Where::Off));
        assert_eq!(place("lines.txt"), Ok(Where::File("lines.txt".into())));
        assert!(place("").is_err());
    }
}
