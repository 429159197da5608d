//! The header of the C interface, made of the source of `sdk/c` as it stands. It is committed, and `tidy` says when it is not what the source makes.

use std::{fmt::Write as _, path::Path};

use wasmtime::{Result, bail, error::Context as _};

/// In the order of the header.
const SOURCES: [&str; 5] = ["abi", "raw", "party", "segments", "messages"];
const HEADER: &str = "sdk/c/include/catena.h";

const BEGIN: &str = "\
/* The C interface of Catena. Made by `xtask header` of sdk/c/src: change it there.
 *
 * Every function that returns int32_t returns CATENA_OK or why it failed; catena_last_error() says more. Handles are numbers that are never used again; 0 is none.
 * Functions block, and may be called from any thread. A handle may be used by several threads at once. */
#ifndef CATENA_H
#define CATENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

const END: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// Writes the header.
pub(crate) fn write(root: &Path) -> Result<()> {
    let text = of_sources(root)?;
    std::fs::write(root.join(HEADER), text).with_context(|| format!("writing {HEADER}"))
}

/// Whether the header that is committed is the one that the source makes.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let committed = std::fs::read_to_string(root.join(HEADER)).unwrap_or_default();
    let fresh = committed == of_sources(root)?;
    let fault = || format!("{HEADER} is not what sdk/c/src makes: run `target/release/xtask header`");
    Ok((!fresh).then(fault).into_iter().collect())
}

fn of_sources(root: &Path) -> Result<String> {
    let mut header = BEGIN.to_owned();
    for name in SOURCES {
        let path = root.join("sdk/c/src").join(format!("{name}.rs"));
        let source = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        header.push_str(&of_source(&source).with_context(|| path.display().to_string())?);
    }
    header.push_str(END);
    Ok(header)
}

/// What one source has for C: constants, structs and functions that are public, with the comments above them.
fn of_source(source: &str) -> Result<String> {
    let (mut out, mut comment, mut lines) = (String::new(), Vec::new(), source.lines());
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let function = line.strip_prefix("pub unsafe extern \"C\" fn ").or(line.strip_prefix("pub extern \"C\" fn "));
        let declared = if let Some(constant) = line.strip_prefix("pub const CATENA_") {
            Some(constant_of(constant)?)
        } else if let Some(first) = function {
            let mut whole = first.to_owned();
            while !whole.trim_end().ends_with('{') {
                whole.push_str(lines.next().context("a function that does not end")?);
            }
            Some(function_of(&whole)?)
        } else if let Some(name) = line.strip_prefix("pub struct Catena").and_then(|rest| rest.strip_suffix(" {")) {
            let fields = lines.by_ref().take_while(|line| *line != "}");
            Some(struct_of(name, fields)?)
        } else {
            None
        };
        if let Some(declared) = declared {
            let _ = write!(out, "\n{}{declared}\n", shown(&comment));
        }
        comment.clear();
    }
    Ok(out)
}

fn shown(comment: &[&str]) -> String {
    let lines: Vec<&str> = comment.iter().copied().filter(|line| !line.is_empty() && *line != "# Safety").collect();
    format!("/* {} */\n", lines.join("\n * "))
}

fn constant_of(text: &str) -> Result<String> {
    let parts = text.strip_suffix(';').and_then(|text| text.split_once(": ")).context("a constant")?;
    let (_, value) = parts.1.split_once(" = ").context("a constant without a value")?;
    Ok(format!("#define CATENA_{} ({value})", parts.0))
}

fn struct_of<'s>(name: &str, lines: impl Iterator<Item = &'s str>) -> Result<String> {
    let mut fields = String::new();
    for line in lines {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            let _ = writeln!(fields, "    /* {} */", text.trim());
        } else if let Some(field) = line.strip_prefix("pub ").and_then(|field| field.strip_suffix(',')) {
            let _ = writeln!(fields, "    {};", variable(field)?);
        }
    }
    let name = name.to_lowercase();
    Ok(format!("typedef struct catena_{name} {{\n{fields}}} catena_{name};"))
}

fn function_of(text: &str) -> Result<String> {
    let (name, rest) = text.split_once('(').context("a function without parameters")?;
    let (parameters, result) = rest.rsplit_once(')').context("a function whose parameters do not end")?;
    let result = result.trim().strip_prefix("-> ").and_then(|result| result.strip_suffix('{')).context("a result")?;
    let parameters = parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
    let parameters = parameters.map(variable).collect::<Result<Vec<_>>>()?;
    let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    Ok(format!("{}{name}({parameters});", type_of(result.trim())?))
}

/// `name: type`, as C has it.
fn variable(text: &str) -> Result<String> {
    let (name, kind) = text.split_once(": ").with_context(|| format!("{text:?} has no type"))?;
    Ok(format!("{}{name}", type_of(kind)?))
}

/// A type, up to where the name begins.
fn type_of(kind: &str) -> Result<String> {
    if let Some(to) = kind.strip_prefix("*mut ") {
        return Ok(format!("{}*", type_of(to)?));
    }
    if let Some(to) = kind.strip_prefix("*const ") {
        return Ok(match to.starts_with('*') {
            true => format!("{}const *", type_of(to)?),
            false => format!("const {}*", type_of(to)?),
        });
    }
    Ok(match kind {
        "i32" => "int32_t ".to_owned(),
        "u32" => "uint32_t ".to_owned(),
        "u64" => "uint64_t ".to_owned(),
        "usize" => "size_t ".to_owned(),
        "c_char" => "char ".to_owned(),
        "c_void" => "void ".to_owned(),
        _ => match kind.strip_prefix("Catena") {
            Some(name) => format!("catena_{} ", name.to_lowercase()),
            None => bail!("{kind:?} has no name in C"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_cs() -> Result<()> {
        let source = "/// One.\npub const CATENA_A: i32 = 1;\n#[repr(C)]\n/// Two.\npub struct CatenaB {\n    /// Three.\n    pub c: *const c_void,\n}\n\
            /// Four.\n///\n/// # Safety\n/// Five.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn catena_d(\n    e: *const CatenaB,\n    f: *mut *mut c_void,\n) -> *const c_char {\n}\n\
            pub extern \"C\" fn catena_g() -> u32 {\n}\nfn hidden() {}\n";
        let made = of_source(source)?;
        for part in [
            "/* One. */\n#define CATENA_A (1)\n",
            "typedef struct catena_b {\n    /* Three. */\n    const void *c;\n} catena_b;",
            "/* Four.\n * Five. */\nconst char *catena_d(const catena_b *e, void **f);",
            "uint32_t catena_g(void);",
        ] {
            assert!(made.contains(part), "{made}");
        }
        assert!(!made.contains("hidden"));
        assert!(of_source("pub extern \"C\" fn a(b: Vec<u8>) -> i32 {\n}").is_err());
        Ok(())
    }
}
