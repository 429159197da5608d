//! Part of `tidy`: what no other tool checks of the documentation. Links between its pages lead somewhere, and not out of the book; every page of
//! the book is in its table of contents; a row of a table has as many cells as its head, since further ones are not shown.

use std::{
    collections::HashSet,
    path::{Component, Path, PathBuf},
};

use wasmtime::{Result, error::Context as _};

/// The book's pages; what they link to must be one of them.
const BOOK: &str = "docs/src";
/// Its table of contents.
const CONTENTS: &str = "docs/src/SUMMARY.md";

/// What is wrong, each with its file and line. `files` are seen from `root`.
pub(crate) fn faults(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut in_contents = HashSet::new();
    for file in files {
        let text = whole(root, file)?;
        let lines = prose(&text);
        faults.extend(
            rows(&lines)
                .map(|line| format!("{}:{line}: a row with more or fewer cells than its table", file.display())),
        );
        for (line, link) in lines.iter().flat_map(|(line, text)| links(text).map(move |link| (line, link))) {
            match leads_to(root, file, link) {
                Ok(page) if file == Path::new(CONTENTS) => {
                    in_contents.insert(page);
                }
                Ok(_) => {}
                Err(why) => faults.push(format!("{}:{line}: the link {link}: {why}", file.display())),
            }
        }
    }
    let pages = files.iter().filter(|file| file.starts_with(BOOK) && *file != Path::new(CONTENTS));
    let left_out = pages.filter(|file| !in_contents.contains(*file));
    faults.extend(left_out.map(|file| format!("{} is not in {CONTENTS}, so the book leaves it out", file.display())));
    Ok(faults)
}

/// What stands in backticks in a line.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The page that a link leads to, or why it leads nowhere.
fn leads_to(root: &Path, from: &Path, link: &str) -> Result<PathBuf, String> {
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    let page = match path {
        "" => from.to_owned(),
        path => beside(from, path),
    };
    if from.starts_with(BOOK) && !page.starts_with(BOOK) {
        return Err(format!("leads out of {BOOK}: the book has no such page"));
    }
    if !root.join(&page).exists() {
        return Err(format!("there is no {}", page.display()));
    }
    let Some(heading) = heading else { return Ok(page) };
    let text = whole(root, &page).map_err(|why| why.to_string())?;
    if prose(&text).iter().any(|(_, line)| line.starts_with('#') && slug(line) == heading) {
        return Ok(page);
    }
    Err(format!("{} has no heading #{heading}", page.display()))
}

/// A file's text, with that of the files that it includes in their places.
fn whole(root: &Path, file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
    let Some(included) = text.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) else {
        return Ok(text);
    };
    let included = root.join(beside(file, included));
    std::fs::read_to_string(&included).with_context(|| included.display().to_string())
}

/// A path as it is written in a file, seen from where the file is seen.
fn beside(file: &Path, path: &str) -> PathBuf {
    let mut whole = file.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole
}

/// The lines that are not code, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut code = false;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    lines.map(|(index, line)| (index + 1, line)).collect()
}

/// The targets of a line's links that lead to files: `[text](target)`, outside of inline code.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let text = line.split('`').step_by(2);
    let targets = text.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The name under which a heading is found: that of GitHub and of mdbook.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines of tables whose rows do not fit their heads.
fn rows(lines: &[(usize, &str)]) -> impl Iterator<Item = usize> {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut head = None;
    lines.iter().filter_map(move |(number, line)| {
        if !line.starts_with('|') {
            head = None;
            return None;
        }
        (*head.get_or_insert_with(|| cells(line)) != cells(line)).then_some(*number)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_leads_nowhere_is_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            PathBuf::from(name)
        };
        let good = "# A `b`, c\n[a](#a-b-c) `[no](nowhere)` [web](https://x.y)\n```\n[no](nowhere)\n```\n";
        let files = [
            write("README.md", "[in](docs/src/a.md#a-b-c) [out](LICENSE)\n[no](docs/src/c.md)\n"),
            write(CONTENTS, "- [a](a.md)\n- [b](b.md)\n"),
            write("docs/src/a.md", &format!("{good}[b](b.md#told) [c](b.md#nowhere)\n[out](../../README.md)\n")),
            write("docs/src/b.md", "{{#include ../told.md}}\n"),
            write("docs/told.md", "## Told\n\n| a | b |\n| --- | --- |\n| 1 \\| 2 | 3 |\n| 1 | 2 | 3 |\n"),
            write("docs/src/lost.md", ""),
        ];
        write("LICENSE", "");
        let faults = faults(root.path(), &files).unwrap();
        let expected = [
            "README.md:2: the link docs/src/c.md: there is no",
            "docs/src/a.md:6: the link b.md#nowhere: docs/src/b.md has no heading",
            "docs/src/a.md:7: the link ../../README.md: leads out",
            "docs/src/b.md:6: a row",
            "docs/told.md:6: a row",
            "docs/src/lost.md is not in",
        ];
        assert_eq!(faults.len(), expected.len(), "{faults:#?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.starts_with(expected), "{fault:?}, not {expected:?}");
        }
    }
}
