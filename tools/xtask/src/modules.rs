//! Which modules of a crate use each other in a circle: a part that two others need of each other belongs below both.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use wasmtime::{Result, error::Context as _};

/// By module: the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The circles of modules in this crate, as faults. A folder is one module; what its own files use of each other is their affair.
pub(crate) fn faults(root: &Path, source: &str, files: &[impl AsRef<Path>]) -> Result<Vec<String>> {
    let library = std::fs::read_to_string(root.join(source).join("lib.rs")).context("lib.rs")?;
    let exported = exports(&library);
    let mut uses = Uses::new();
    for file in files.iter().map(AsRef::as_ref) {
        let Ok(within) = file.strip_prefix(source) else { continue };
        let first = within.iter().next().unwrap_or_default();
        let Some(module) = Path::new(first).file_stem().and_then(|name| name.to_str()) else { continue };
        if module != "lib" {
            let text = std::fs::read_to_string(root.join(file))?;
            uses.entry(module.to_owned()).or_default().extend(used_by(&text, &exported));
        }
    }
    Ok(circles(uses).into_iter().map(|(from, to)| format!("{source}: {from} uses {to}, in a circle")).collect())
}

/// The module that each name at the root of the crate comes from.
fn exports(library: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for statement in library.split(';').filter_map(|statement| statement.split_once("use ")) {
        if let Some((module, names)) = statement.1.split_once("::") {
            let names = names.trim_matches(['{', '}']).split(',').map(|name| name.trim().trim_matches(['{', '}']));
            exported.extend(names.map(|name| (name.trim().to_owned(), module.trim().to_owned())));
            exported.remove("");
        }
    }
    exported
}

/// Tests may look further than what they test.
fn used_by(text: &str, exported: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = code.lines().filter_map(|line| line.split("//").next()).collect::<Vec<_>>().join("\n");
    let names = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => first_names(group),
        None => vec![name_at(rest)],
    });
    names.map(|name| exported.get(&name).cloned().unwrap_or(name)).filter(|name| !name.is_empty()).collect()
}

/// The first name of each path in a group, up to its end.
fn first_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut start) = (0_usize, Vec::new(), 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                names.push(name_at(&group[start..at]));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn name_at(text: &str) -> String {
    text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// What is left when modules that use no other, or are used by none, are taken away one after the other.
fn circles(mut uses: Uses) -> Vec<(String, String)> {
    uses.iter_mut().for_each(|(module, used)| used.retain(|name| name != module));
    loop {
        let known: BTreeSet<String> = uses.keys().cloned().collect();
        let used: BTreeSet<String> = uses.values().flatten().cloned().collect();
        uses.values_mut().for_each(|used| used.retain(|name| known.contains(name)));
        uses.retain(|module, of| !of.is_empty() && used.contains(module));
        if uses.len() == known.len() {
            return uses.into_iter().flat_map(|(from, to)| to.into_iter().map(move |to| (from.clone(), to))).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_uses_is_found_by_module() {
        let exported = exports("mod a;\npub use a::{\n    One, Two,\n};\npub(crate) use b::Three;\n");
        let text = "use crate::{\n    One, c::{self, D}, e,\n};\n// crate::not\nlet x = crate::Three;\n#[cfg(test)]\nuse crate::late;";
        let used: Vec<String> = used_by(text, &exported).into_iter().collect();
        assert_eq!(used, ["a", "b", "c", "e"]);
    }

    #[test]
    fn circles_are_named_and_nothing_else() {
        let uses = |pairs: &[(&str, &str)]| {
            let mut uses = Uses::new();
            for (from, to) in pairs {
                uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
                uses.entry((*to).to_owned()).or_default();
            }
            uses
        };
        assert!(circles(uses(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "c")])).is_empty());
        let circle = circles(uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
        assert_eq!(circle, [("b".to_owned(), "c".to_owned()), ("c".to_owned(), "b".to_owned())]);
    }
}
