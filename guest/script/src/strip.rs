//! Types away, everything else where it was.

use std::sync::{Arc, Mutex, PoisonError};

use swc_common::{
    BytePos, SourceMap,
    errors::{DiagnosticBuilder, Emitter, Handler},
    sync::Lrc,
};
use swc_ts_fast_strip::{Options, operate};

use crate::{
    error::{ErrorKind, ScriptError},
    place::offset,
};

/// Overwrites every type with blanks. The source is known to parse.
pub(crate) fn types(name: &str, source: &str) -> Result<String, ScriptError> {
    let found = Found::default();
    let handler = Handler::with_emitter(false, false, Box::new(found.clone()));
    let options = Options { module: Some(true), ..Options::default() };
    let stripped = operate(&Lrc::new(SourceMap::default()), &handler, source.to_owned(), options);
    stripped.map(|output| output.code).map_err(|failed| match found.first() {
        Some((position, message)) => not_only_types(name, &message).at(source, offset(position)),
        None => ScriptError::of_file(
            ErrorKind::Internal,
            name,
            format!("types could not be taken away: {}", failed.message),
            "please report it with the source; plain JavaScript avoids it",
        ),
    })
}

/// What to write instead of each construct that is more than types, found by a word of the stripper's message.
const INSTEAD: &[(&str, &str, &str)] = &[
    (
        "enum",
        "a TypeScript enum is more than a type, and only types are taken away",
        "write an object, `const Colour = { red: 0, green: 1 } as const`, or a union of literals, \
         `type Colour = \"red\" | \"green\"`",
    ),
    (
        "namespace",
        "a TypeScript namespace that holds values is more than a type, and only types are taken away",
        "write its members at the top level, or as an object; a namespace of types alone is fine",
    ),
    (
        "import equals",
        "`import x = ...` is more than a type, and only types are taken away",
        "write `import { call } from \"catena\"`; nothing else can be imported, and there is no require",
    ),
    (
        "export assignment",
        "`export =` is more than a type, and only types are taken away",
        "write `export default async function main(input) { ... }`",
    ),
    (
        "parameter property",
        "a parameter property (`constructor(private x)`) is more than a type, and only types are taken away",
        "declare the field, and assign it in the constructor: `x; constructor(x) { this.x = x; }`",
    ),
    (
        "angle-bracket",
        "a type assertion in angle brackets, `<T>x`, cannot be taken away where it stands",
        "write `x as T`",
    ),
    (
        "`**`",
        "the left side of `**` would lose its meaning without its type assertion",
        "put it in parentheses: `(-x) ** 2`",
    ),
];

fn not_only_types(name: &str, said: &str) -> ScriptError {
    let known = INSTEAD.iter().find(|(word, _, _)| said.contains(word));
    let (message, help) = known.map_or(
        (said, "write it in plain JavaScript, or compile the file to JavaScript first"),
        |(_, message, help)| (*message, *help),
    );
    ScriptError::of_file(ErrorKind::NotOnlyTypes, name, message, help)
}

/// Takes in what the stripper reports, instead of printing it.
#[derive(Clone, Default)]
struct Found(Arc<Mutex<Vec<(BytePos, String)>>>);

impl Found {
    /// The report that stands first in the text.
    fn first(&self) -> Option<(BytePos, String)> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().min_by_key(|(position, _)| *position).cloned()
    }
}

impl Emitter for Found {
    fn emit(&mut self, report: &mut DiagnosticBuilder<'_>) {
        let position = report.span.primary_span().map_or(BytePos(0), |span| span.lo);
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.push((position, report.message()));
    }
}
