//! Source of chain functions, at the origin: what a person wrote becomes what a node's engine takes in.
//!
//! A chain function travels alone, as one file of JavaScript. So everything that could only fail far away is found
//! here, where its author sits: a syntax error, TypeScript that is more than types, an import that no server has, a
//! default export that is missing. Types are *erased in place* (each is overwritten by blanks), never compiled, so a
//! line and column that a server reports is a line and column of the file that was written, and no source map travels.
//! (Columns stay in UTF-16 units. Counted in characters, each one beyond U+FFFF *inside an erased type* adds a column to
//! what follows it in its line.)
//!
//! Nodes never run this: they take JavaScript only, and trust none of the checks made here.
//!
//! ```
//! let script = catena_script::prepare(
//!     "size.ts",
//!     r#"import { call } from "catena";
//!        export default async function size(path: string) {
//!            return (await call("files.mtv/getattr", { path })).size;
//!        }"#,
//! )?;
//! assert!(!script.source.contains(": string"));
//! assert_eq!(script.calls[0].target.to_string(), "files.mtv/getattr");
//! # Ok::<(), catena_script::ScriptError>(())
//! ```

mod calls;
mod confined;
mod error;
mod language;
mod parse;
mod place;
mod rules;
mod spot;
mod strip;

#[cfg(test)]
mod tests;

pub use calls::{FoundCall, Target};
pub use error::{ErrorKind, ScriptError};
pub use spot::{Spot, is_hidden, printable};

use language::Language;

/// The longest source taken, in bytes of UTF-8. A function is uploaded once and cached by every node that it visits,
/// and a bundle of this size is already far past what a chain needs.
pub const SOURCE_BYTES_MAX: usize = 1024 * 1024;

/// The longest that [`prepare`] works on one source, in milliseconds. A megabyte of ordinary code takes a twentieth of
/// this; what takes longer is nested without bound.
pub const PREPARE_WALL_MS_MAX: u64 = 5_000;

/// A chain function, ready to be offered to nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The name that it was given, as it is to appear in stack traces.
    pub name: String,
    /// JavaScript: an ES module whose every token stands at the line and (UTF-16) column where it was written.
    pub source: String,
    /// The calls that the source makes by name, in the order in which they are written.
    pub calls: Vec<FoundCall>,
}

/// Checks the source of a chain function and takes its types away.
///
/// `name` is the file's name or path; its extension says what the source is: `.ts` and `.mts` are TypeScript, `.js`
/// and `.mjs` are JavaScript and come back as they are. A byte order mark is dropped.
///
/// Blocks for as long as the parser works: milliseconds for a function written by hand. Call it from a blocking thread
/// where that matters.
///
/// # Errors
///
/// The first thing that is wrong, with its place and what to do: see [`ErrorKind`].
pub fn prepare(name: &str, source: &str) -> Result<Script, ScriptError> {
    let language = Language::of(name)?;
    if source.len() > SOURCE_BYTES_MAX {
        return Err(error::too_long(name, source.len()));
    }
    // Editors do not count the mark as a column, and the parser does not either.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    confined::run(name, source, PREPARE_WALL_MS_MAX, move |name, source| prepare_here(name, source, language))
}

/// [`prepare`], for bytes as they come from a file.
///
/// # Errors
///
/// As [`prepare`], and [`ErrorKind::NotUtf8`].
pub fn prepare_bytes(name: &str, source: &[u8]) -> Result<Script, ScriptError> {
    Language::of(name)?;
    if source.len() > SOURCE_BYTES_MAX {
        return Err(error::too_long(name, source.len()));
    }
    match std::str::from_utf8(source) {
        Ok(source) => prepare(name, source),
        Err(at) => Err(error::not_utf8(name, source, at.valid_up_to())),
    }
}

fn prepare_here(name: &str, source: &str, language: Language) -> Result<Script, ScriptError> {
    let module = parse::module(name, source, language)?;
    // Before the rules: `import x = require("y")` is to be named as what it is, not as a missing default export.
    let javascript = match language {
        Language::TypeScript => strip::types(name, source)?,
        Language::JavaScript => source.to_owned(),
    };
    rules::check(name, source, &module)?;
    let calls = calls::find(source, module, language);
    Ok(Script { name: name.to_owned(), source: javascript, calls })
}
