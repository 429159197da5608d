//! A mistake in the file: its line, a caret, and the nearest word that would be right.

use std::{ops::Range, path::Path};

use catena_script::Spot;
use serde::{Serialize, de};

use crate::{failure::Failure, input, nearest::did_you_mean};

/// The file's text; spans are byte offsets into it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Text {
    file: std::sync::Arc<str>,
    text: std::sync::Arc<str>,
}

impl Text {
    pub(super) fn new(path: &Path, bytes: Vec<u8>) -> Result<Self, Failure> {
        let file = path.display().to_string();
        let text = input::text(&file, bytes, |message, help| Failure::cannot_start(message, help))?;
        Ok(Self { file: file.into(), text: text.into() })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The folder of the file: paths in the file are relative to it.
    pub(super) fn folder(&self) -> &Path {
        Path::new(&*self.file).parent().unwrap_or_else(|| Path::new(""))
    }

    /// A mistake at a place.
    pub(super) fn mistake(&self, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure::cannot_start(message, help).at(Spot::at_byte(&self.file, &self.text, at.start))
    }

    /// A mistake that the TOML parser found.
    pub(super) fn toml(&self, why: &toml::de::Error) -> Failure {
        let at = why.span().unwrap_or_default();
        if let Some((message, help)) = why.message().split_once(HELP) {
            return self.mistake(at, message, help);
        }
        let message = why.message().trim().replace('\n', ": ");
        let help = help(&message);
        self.mistake(at, message, help)
    }
}

/// Separates what is wrong from what to do about it, in the errors of values that check themselves while they are read.
const HELP: &str = "\nhelp: ";

/// The error of a `deserialize_with` whose value is wrong; the parser adds its place.
pub(super) fn wrong<E: de::Error>(message: &str, help: &str) -> E {
    E::custom(format_args!("{message}{HELP}{help}"))
}

/// The word by which the file names a variant.
pub(super) fn word(variant: impl Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// serde says ``unknown field `a`, expected one of `b`, `c` ``; the nearest of them is likely to be meant.
fn help(message: &str) -> String {
    const OTHERWISE: &str = "`catena up --help` shows a whole file";
    if !message.starts_with("unknown") {
        return OTHERWISE.to_owned();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().unwrap_or_default();
    did_you_mean(unknown, quoted, OTHERWISE)
}
