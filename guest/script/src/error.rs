//! What is wrong with a source, where, and what to do.

use std::fmt;

use crate::{Place, SOURCE_BYTES_MAX};

/// The most of a source line that an error shows, in characters: bundles may be one line of a megabyte.
const EXCERPT_CHARS_MAX: usize = 120;

/// What kind of thing is wrong. All are the author's to mend, except [`ErrorKind::Internal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file's extension is none of `.js`, `.mjs`, `.ts`, `.mts`.
    FileName,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The source is longer than [`SOURCE_BYTES_MAX`].
    TooLong,
    /// Not JavaScript, or not TypeScript.
    Syntax,
    /// TypeScript that is more than types, such as an enum: erasing it would change what the program does.
    NotOnlyTypes,
    /// An import of anything but `catena`, where values (not types) are imported.
    Import,
    /// An `import()` expression.
    DynamicImport,
    /// No default export, or one that is certainly not a function.
    DefaultExport,
    /// Parsing took longer than [`crate::PREPARE_WALL_MS_MAX`], or more stack than this machine gives.
    TooComplex,
    /// The parser failed: its fault, not the author's.
    Internal,
}

impl ErrorKind {
    /// A stable name, for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FileName => "FileName",
            Self::NotUtf8 => "NotUtf8",
            Self::TooLong => "TooLong",
            Self::Syntax => "Syntax",
            Self::NotOnlyTypes => "NotOnlyTypes",
            Self::Import => "Import",
            Self::DynamicImport => "DynamicImport",
            Self::DefaultExport => "DefaultExport",
            Self::TooComplex => "TooComplex",
            Self::Internal => "Internal",
        }
    }
}

/// Why a source cannot become a chain function. Its `Display` is meant for people: the place, the message, the source
/// line with a caret, and what to do, on several lines without a final line feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ScriptError {
    /// What kind of thing is wrong.
    pub kind: ErrorKind,
    /// The file, as it was named.
    pub file: String,
    /// Where; `None` where the file as a whole is wrong.
    pub place: Option<Place>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do, in one line.
    pub help: String,
    /// The part of the source line around the place (at most 120 characters of it), safe to print.
    pub excerpt: Option<Excerpt>,
}

/// A part of a source line with the column that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The text. Control characters other than the tab are replaced, so that a source cannot command a terminal.
    pub text: String,
    /// How many characters of `text` stand before the caret.
    pub before: usize,
}

impl ScriptError {
    /// An error of the file as a whole.
    pub(crate) fn of_file(kind: ErrorKind, file: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        let message = printable(&message.into());
        Self { kind, file: file.to_owned(), place: None, message, help: printable(&help.into()), excerpt: None }
    }

    /// An error at the byte `offset` of `source`.
    pub(crate) fn at(mut self, source: &str, offset: usize) -> Self {
        let place = Place::of(source, offset);
        self.excerpt = Some(Excerpt::of(Place::line_text(source, offset), place));
        self.place = Some(place);
        self
    }
}

impl Excerpt {
    fn of(line: &str, place: Place) -> Self {
        let column = usize::try_from(place.column).unwrap_or(usize::MAX).saturating_sub(1);
        let skipped = if column < EXCERPT_CHARS_MAX { 0 } else { column - EXCERPT_CHARS_MAX / 2 };
        let shown: String = line.chars().skip(skipped).take(EXCERPT_CHARS_MAX).collect();
        Self { text: printable(&shown), before: column - skipped }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = printable(&self.file);
        match self.place {
            Some(Place { line, column }) => write!(to, "{file}:{line}:{column}: {}", self.message)?,
            None => write!(to, "{file}: {}", self.message)?,
        }
        if let (Some(excerpt), Some(place)) = (&self.excerpt, self.place) {
            let number = place.line.to_string();
            let margin = " ".repeat(number.len());
            // A tab above is a tab below, so the caret stands right whatever a tab's width is.
            let chars = excerpt.text.chars().chain(std::iter::repeat(' ')).take(excerpt.before);
            let caret: String = chars.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            write!(to, "\n{margin} |\n{number} | {}\n{margin} | {caret}^", excerpt.text)?;
        }
        write!(to, "\nhelp: {}", self.help)
    }
}

pub(crate) fn too_long(name: &str, bytes: usize) -> ScriptError {
    let message = format!("the source has {bytes} bytes, and source_bytes_max is {SOURCE_BYTES_MAX}");
    let help = "leave out what the function does not use (a bundler can: tree shaking, minify), or keep data in a \
                service instead of the source";
    ScriptError::of_file(ErrorKind::TooLong, name, message, help)
}

pub(crate) fn not_utf8(name: &str, source: &[u8], valid_up_to: usize) -> ScriptError {
    let byte = source.get(valid_up_to).copied().unwrap_or_default();
    let message = format!("byte {valid_up_to} (0x{byte:02x}) is not UTF-8 text");
    let help = "save the file as UTF-8";
    // Up to the bad byte the replaced text has the bytes of the file, so the place is the file's.
    let text = String::from_utf8_lossy(source);
    ScriptError::of_file(ErrorKind::NotUtf8, name, message, help).at(&text, valid_up_to)
}

/// The text with its control characters replaced (the tab stays): what a source holds must not command a terminal.
/// Bidirectional overrides too: they make a line read as what it is not.
fn printable(text: &str) -> String {
    let hidden =
        |c: char| (c.is_control() && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}
