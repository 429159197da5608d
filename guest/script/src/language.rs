//! What a source is written in, by its file's extension.

use std::path::Path;

use crate::error::{ErrorKind, ScriptError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    JavaScript,
    TypeScript,
}

impl Language {
    pub(crate) fn of(name: &str) -> Result<Self, ScriptError> {
        let declarations = [".d.ts", ".d.mts"].iter().any(|end| name.ends_with(end));
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        let help = match extension {
            Some("ts" | "mts") if declarations => "it declares types and holds no function: name the source itself",
            Some("ts" | "mts") => return Ok(Self::TypeScript),
            Some("js" | "mjs") => return Ok(Self::JavaScript),
            Some("cjs" | "cts") => {
                "a chain function is an ES module: use import and export, and name it .js, .mjs, .ts or .mts"
            }
            Some("jsx" | "tsx") => "there is no JSX in a chain function: compile it first, or write it without",
            Some("wasm") => "compiled WebAssembly is not source: it needs no preparation",
            _ => "name a file that ends in .js or .mjs (JavaScript), .ts or .mts (TypeScript)",
        };
        let message = "the file's extension does not say that this is the source of a chain function";
        Err(ScriptError::of_file(ErrorKind::FileName, name, message, help))
    }
}
