//! Part of `tidy`: the tests that the page of tests names exist.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use wasmtime::{Result, error::Context as _};

use crate::docs::quoted;

const PAGE: &str = "docs/src/tests.md";

/// What stands before the tests in a file that has other code too.
const MARK: &str = "#[cfg(test)]";

/// Shorter names on the page, and those with fewer underscores, may be of something else.
const NAME_BYTES_MIN: usize = 12;
const NAME_UNDERSCORES_MIN: usize = 2;

/// What is wrong, each with its line. `sources` are seen from `root`.
pub(crate) fn faults(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let read = |file: &Path| std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string());
    let mut functions = HashSet::new();
    for file in sources {
        functions.extend(functions_of(tests_of(file, &read(file)?)).map(str::to_owned));
    }
    let page = read(Path::new(PAGE))?;
    let faults = (1..).zip(page.lines()).flat_map(|(number, line): (usize, &str)| {
        missing_in(line, &functions).map(move |name| format!("{PAGE}:{number}: no test is called {name}"))
    });
    Ok(faults.collect())
}

/// The part of a source that is tests.
fn tests_of<'a>(file: &Path, source: &'a str) -> &'a str {
    let in_folder = file.components().any(|part| part.as_os_str() == "tests");
    match in_folder || file.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests")) {
        true => source,
        false => source.split_once(MARK).map_or("", |(_, tests)| tests),
    }
}

/// Helpers too: the page names some that check each run.
fn functions_of(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next())
}

/// Names of tests in a line of the page that no function has.
fn missing_in<'a>(line: &'a str, functions: &'a HashSet<String>) -> impl Iterator<Item = &'a str> {
    quoted(line).filter(|name| is_of_test(name) && !functions.contains(*name))
}

fn is_of_test(name: &str) -> bool {
    let is_snake_case = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_snake_case && name.len() >= NAME_BYTES_MIN && name.matches('_').count() >= NAME_UNDERSCORES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_named_and_does_not_exist_is_found() {
        let source = "fn no_test_at_all() {}\n#[cfg(test)]\nmod tests {\n    async fn it_works_as_told() {}\n    pub(crate) fn whoever_calls_it<F>(f: F) {}\n}";
        let functions_in = |file| functions_of(tests_of(Path::new(file), source)).map(str::to_owned).collect();
        let functions: HashSet<String> = functions_in("a/src/b.rs");
        let missing = |line| missing_in(line, &functions).collect::<Vec<_>>();
        assert_eq!(missing("| 1 | `a/tests/b.rs`: `it_works_as_told`, `whoever_calls_it` |"), Vec::<&str>::new());
        assert_eq!(
            missing("| 1 | `it_works_as_said`, no_quotes_around | `no_test_at_all` |"),
            ["it_works_as_said", "no_test_at_all"]
        );
        assert_eq!(missing("`too_short_x`, `bounds_of_a.rs`, `CATENA_SEEDS_OF`, `liveness_tests`"), Vec::<&str>::new());
        for file in ["a/tests/b.rs", "a/src/b_tests.rs", "a/src/tests.rs"] {
            assert!(functions_in(file).contains("no_test_at_all"), "all of {file} is tests");
        }
    }
}
