//! What is wrong with a source, where, and what to do.

use std::fmt;

use crate::{SOURCE_BYTES_MAX, Spot, printable};

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
    pub spot: Option<Spot>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do, in one line.
    pub help: String,
}

impl ScriptError {
    /// An error of the file as a whole.
    pub(crate) fn of_file(kind: ErrorKind, file: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        let message = printable(&message.into());
        Self { kind, file: file.to_owned(), spot: None, message, help: printable(&help.into()) }
    }

    /// An error at the byte `offset` of `source`.
    pub(crate) fn at(mut self, source: &str, offset: usize) -> Self {
        self.spot = Some(Spot::at_byte(&self.file, source, offset));
        self
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spot {
            Some(spot) => write!(to, "{}: {}{}", spot.name(), self.message, spot.lines())?,
            None => write!(to, "{}: {}", printable(&self.file), self.message)?,
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
