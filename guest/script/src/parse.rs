//! Text to tree, by the library.

use swc_common::{FileName, SourceMap, Spanned};
use swc_ecma_ast::{EsVersion, Module};
use swc_ecma_parser::{EsSyntax, Syntax, TsSyntax, error::Error, parse_file_as_module};

use crate::{
    error::{ErrorKind, ScriptError},
    language::Language,
    place::offset,
};

/// Parses the source as an ES module.
pub(crate) fn module(name: &str, source: &str, language: Language) -> Result<Module, ScriptError> {
    parse(source, language).map_err(|error| {
        let help = if language == Language::JavaScript && parse(source, Language::TypeScript).is_ok() {
            "this is TypeScript: name the file .ts"
        } else {
            "correct the source at this place, or just before it"
        };
        let message = format!("syntax error: {}", error.kind().msg());
        ScriptError::of_file(ErrorKind::Syntax, name, message, help).at(source, offset(error.span().lo))
    })
}

/// The tree, or the error that stands first in the text: the parser goes on after some, and later ones often follow
/// from the first.
fn parse(source: &str, language: Language) -> Result<Module, Error> {
    let map = SourceMap::default();
    let file = map.new_source_file(FileName::Anon.into(), source.to_owned());
    let syntax = match language {
        Language::TypeScript => Syntax::Typescript(TsSyntax::default()),
        Language::JavaScript => Syntax::Es(EsSyntax::default()),
    };
    let mut errors = Vec::new();
    let parsed = parse_file_as_module(&file, syntax, EsVersion::latest(), None, &mut errors);
    let position = |error: &Error| error.span().lo;
    match parsed {
        Ok(module) => errors.into_iter().min_by_key(position).map_or(Ok(module), Err),
        Err(fatal) => Err(errors
            .into_iter()
            .fold(fatal, |first, next| if position(&next) < position(&first) { next } else { first })),
    }
}
