//! Which modules of a crate use each other in a circle, file by file and folder by folder: what two others need of each other belongs below both.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use wasmtime::{Result, error::Context as _};

/// A path of names: that of a module from the root of its crate, or of something as a file writes it.
type Names = Vec<String>;
/// By module: the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// What a file says of others.
#[derive(Default)]
struct File {
    /// What it names, as it writes it.
    named: Vec<Names>,
    /// What it hands on under a name of its own: whoever uses that uses what it stands for.
    handed_on: BTreeMap<String, Names>,
}

/// The circles of modules in this crate, as faults.
pub(crate) fn faults(root: &Path, source: &str, files: &[impl AsRef<Path>]) -> Result<Vec<String>> {
    let mut modules = BTreeMap::new();
    for file in files.iter().map(AsRef::as_ref) {
        let Ok(within) = file.strip_prefix(source) else { continue };
        let text = std::fs::read_to_string(root.join(file)).context("a source file")?;
        modules.insert(module_of(within), text);
    }
    Ok(circles_of(&modules).into_iter().map(|(from, to)| format!("{source}: {from} uses {to}, in a circle")).collect())
}

/// `a/b.rs` is the module `a::b`, `a/mod.rs` is `a`, and `lib.rs` has no name.
fn module_of(file: &Path) -> Names {
    let mut names: Names = file.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|last| last == "mod" || last == "lib");
    names
}

/// Between files; where there is none of those, between folders.
fn circles_of(modules: &BTreeMap<Names, String>) -> Vec<(String, String)> {
    let files: BTreeMap<&Names, File> = modules.iter().map(|(name, text)| (name, read(name, text, modules))).collect();
    let (mut by_file, mut by_folder) = (Uses::new(), Uses::new());
    for (from, file) in files.iter().filter(|(from, _)| !from.is_empty()) {
        let used: BTreeSet<Names> = file.named.iter().filter_map(|path| place_of(from, path, &files)).collect();
        let folders = used.iter().filter_map(|name| name.first().cloned());
        by_folder.entry(from[0].clone()).or_default().extend(folders);
        by_file.insert(from.join("::"), used.iter().map(|name| name.join("::")).collect());
    }
    let between_files = circles(by_file);
    if between_files.is_empty() { circles(by_folder) } else { between_files }
}

/// Tests may look further than what they test.
fn read(module: &[String], text: &str, modules: &BTreeMap<Names, String>) -> File {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = code.lines().filter_map(|line| line.split("//").next()).collect::<Vec<_>>().join("\n");
    let (mut file, mut public, mut rest) = (File::default(), Vec::new(), code);
    while let Some((start, after)) = use_in(&rest) {
        let end = rest[after..].find(';').map_or(rest.len(), |at| after + at);
        let handed_on = rest[start..after].contains("pub");
        let mut paths = Vec::new();
        tree(&[], &rest[after..end], &mut paths);
        for (name, path) in paths {
            if handed_on {
                public.push((name, path));
            } else {
                file.named.push(path);
            }
        }
        rest.replace_range(start..end, "");
    }
    let children = modules.keys().filter(|name| name.len() == module.len() + 1 && name.starts_with(module));
    let begins: Vec<&str> =
        ["crate", "super"].into_iter().chain(children.filter_map(|name| name.last()).map(String::as_str)).collect();
    let words = paths_in(&rest);
    file.named.extend(words.iter().filter(|path| path.len() > 1 && begins.contains(&path[0].as_str())).cloned());
    for (name, path) in public {
        // It may be handed on and used here as well.
        if words.iter().any(|word| word[0] == name) {
            file.named.push(path.clone());
        }
        file.handed_on.insert(name, path);
    }
    file
}

/// The next `use` at the beginning of a line: where that line begins, and where the paths do.
fn use_in(code: &str) -> Option<(usize, usize)> {
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let after = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .find_map(|word| trimmed.strip_prefix(word));
        if let Some(after) = after {
            return Some((start, start + line.len() - after.len()));
        }
        start += line.len();
    }
    None
}

/// Each path of a `use`, with the name under which it is known.
fn tree(before: &[String], text: &str, paths: &mut Vec<(String, Names)>) {
    let (mut depth, mut start) = (0_usize, 0);
    let mut one = |text: &str| {
        if text.trim().is_empty() {
            return;
        }
        let (path, group) = text.split_once('{').map_or((text, None), |(path, group)| (path, group.rsplit_once('}')));
        let (path, alias) = path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
        let mut names = before.to_vec();
        names.extend(
            path.split("::").map(str::trim).filter(|name| !name.is_empty() && *name != "self").map(str::to_owned),
        );
        match (group, names.last()) {
            (Some((group, _)), _) => tree(&names, group, paths),
            (None, Some(last)) => paths.push((alias.unwrap_or(last).to_owned(), names)),
            (None, None) => {}
        }
    };
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                one(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    one(&text[start..]);
}

/// The paths in code, single names among them; what follows a dot is a field or method, and none of them.
fn paths_in(code: &str) -> Vec<Names> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (mut paths, mut before) = (Vec::new(), ' ');
    let mut rest = code;
    while let Some(start) = rest.find(is_name) {
        before = rest[..start].chars().next_back().unwrap_or(before);
        rest = &rest[start..];
        let end = rest.find(|letter: char| !is_name(letter) && letter != ':').unwrap_or(rest.len());
        let path: Names =
            rest[..end].trim_end_matches(':').split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if before != '.' && !path.is_empty() {
            paths.push(path);
        }
        (before, rest) = (' ', &rest[end..]);
    }
    paths
}

/// The module where that is which a file names so; `None` if it is of another crate, or the file's own.
fn place_of(from: &[String], path: &[String], files: &BTreeMap<&Names, File>) -> Option<Names> {
    /// So often something is handed on.
    const TIMES_MAX: usize = 8;
    let (mut from, mut path) = (from.to_vec(), path.to_vec());
    let own = from.clone();
    for _ in 0..TIMES_MAX {
        let (mut at, mut names) = (from.clone(), path.iter().peekable());
        match names.peek()?.as_str() {
            "crate" => at = Vec::new(),
            "super" => {}
            child => {
                let child = [&at[..], &[child.to_owned()]].concat();
                if !files.contains_key(&child) {
                    return None;
                }
            }
        }
        while let Some(name) = names.next_if(|name| ["crate", "super"].contains(&name.as_str())) {
            if name == "super" {
                at.pop();
            }
        }
        let mut handed_on = None;
        for name in names {
            let next = [&at[..], std::slice::from_ref(name)].concat();
            if files.contains_key(&next) {
                at = next;
                continue;
            }
            handed_on = files.get(&at).and_then(|file| file.handed_on.get(name)).cloned();
            break;
        }
        match handed_on {
            Some(path_on) => (from, path) = (at, path_on),
            None => return Some(at).filter(|at| *at != own),
        }
    }
    None
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

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(file, text)| (module_of(Path::new(file)), (*text).to_owned())).collect();
        circles_of(&files).into_iter().map(|(from, to)| format!("{from}>{to}")).collect()
    }

    #[test]
    fn files_that_use_each_other_are_named_whatever_way_they_do() {
        let two_ways = [
            ("use crate::{x, b::{self, B}};", "fn f(a: super::a::A) {}"),
            ("fn f() { crate::b::g() }", "use super::{a::A as Other};"),
            ("use super::b;", "use crate::A;"),
        ];
        for (a, b) in two_ways {
            let files = [("lib.rs", "mod a;\nmod b;\npub use a::{\n    A, Z,\n};"), ("a.rs", a), ("b.rs", b)];
            assert_eq!(found(&files), ["a>b", "b>a"], "{a} {b}");
        }
        let parent = [("f/mod.rs", "mod c;\nstruct S(c::C);"), ("f/c.rs", "use super::S;\nstruct C;")];
        assert_eq!(found(&parent), ["f>f::c", "f::c>f"]);
    }

    #[test]
    fn folders_are_looked_at_where_no_file_is_in_a_circle() {
        let files = [
            ("f/mod.rs", ""),
            ("f/a.rs", "use crate::g::b;"),
            ("f/c.rs", ""),
            ("g/mod.rs", ""),
            ("g/b.rs", ""),
            ("g/d.rs", "use crate::f::c;"),
        ];
        assert_eq!(found(&files), ["f>g", "g>f"]);
    }

    #[test]
    fn what_goes_one_way_is_no_circle() {
        let files = [
            // What is handed on is not used; a method of the same name is none of it.
            ("f/mod.rs", "mod c;\npub(crate) use c::{extend, C};\nstruct S;\nfn f() { x.extend(1) }"),
            ("f/c.rs", "use super::S;\nuse alloc::vec::Vec;\n// crate::g\nlet x = 1;\n#[cfg(test)]\nuse crate::g;"),
            ("g.rs", "use crate::f::C;\nuse std::{f, g};"),
        ];
        assert!(found(&files).is_empty(), "{:?}", found(&files));
        let siblings =
            [("f/mod.rs", "struct S(c::C);"), ("f/c.rs", "use super::{\n    d::D,\n};"), ("f/d.rs", "struct D;")];
        assert!(found(&siblings).is_empty(), "{:?}", found(&siblings));
        // It is, if it is used there too.
        let used = [("f/mod.rs", "mod c;\npub use c::C;\nstruct S(C);"), ("f/c.rs", "use super::S;")];
        assert_eq!(found(&used), ["f>f::c", "f::c>f"]);
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
