//! Part of `tidy`: the numbers on the page of limits are those of the code, and constants that it names exist. What is no plain number, or no constant and no
//! default of a section that is named here, is left to its reader.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use wasmtime::{Result, error::Context as _};

use crate::docs::quoted;

const PAGE: &str = "docs/src/limits.md";

/// By the beginnings of headings: where the defaults are of which a section tells.
const DEFAULTS: &[(&str, &str)] = &[
    ("## Of the node: `Policy`", "core/src/policy.rs"),
    ("## Of each guest", "guest/src/limits.rs"),
    ("## Of segments", "core/src/segments/policy.rs"),
    ("## Of messages", "core/src/messages/policy.rs"),
    ("## Of the links", "net/src/config.rs"),
];

/// How a name in capitals ends that must be a constant: others may be names of exceptions.
const ENDINGS: [&str; 3] = ["_MAX", "_MIN", "_PART"];

/// The values of each name: of a constant there may be several.
type Numbers = HashMap<String, Vec<u64>>;

/// What is wrong, each with its line. `sources` are seen from `root`.
pub(crate) fn faults(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let read = |file: &Path| std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string());
    let (mut constants, mut names) = (Numbers::new(), HashSet::new());
    for file in sources.iter().filter(|file| !file.components().any(|part| part.as_os_str() == "tests")) {
        let source = read(file)?;
        note(&mut constants, constants_of(&source));
        names.extend(source.lines().filter_map(constant).map(|(name, _)| name.to_owned()));
    }
    let page = read(Path::new(PAGE))?;
    let (mut faults, mut defaults) = (Vec::new(), Numbers::new());
    for (number, line) in (1..).zip(page.lines()) {
        if line.starts_with("## ") {
            defaults.clear();
            if let Some((_, file)) = DEFAULTS.iter().find(|(heading, _)| line.starts_with(heading)) {
                note(&mut defaults, defaults_of(&read(Path::new(file))?));
            }
        }
        faults.extend(
            wrong_in(line, &constants, &defaults).map(|name| format!("{PAGE}:{number}: not the number of {name}")),
        );
        faults.extend(unknown_in(line, &names).map(|name| format!("{PAGE}:{number}: no constant is called {name}")));
    }
    Ok(faults)
}

fn note<'a>(numbers: &mut Numbers, found: impl Iterator<Item = (&'a str, u64)>) {
    found.for_each(|(name, value)| numbers.entry(name.to_owned()).or_default().push(value));
}

/// Names in the first cell of a row whose numbers the row does not have.
fn wrong_in<'a>(row: &'a str, constants: &'a Numbers, defaults: &'a Numbers) -> impl Iterator<Item = &'a str> {
    let (names, told) = row.strip_prefix('|').and_then(|row| row.split_once('|')).unwrap_or_default();
    // A part of something is told in words.
    let names = quoted(names).filter(|name| !name.ends_with("_PART"));
    names.filter(move |name| {
        let values = constants.get(*name).or_else(|| defaults.get(*name));
        values.is_some_and(|values| !values.iter().any(|value| written(name, *value).any(|way| has_number(told, &way))))
    })
}

/// Names of constants in a line of the page that no constant has.
fn unknown_in<'a>(line: &'a str, constants: &'a HashSet<String>) -> impl Iterator<Item = &'a str> {
    let is_in_capitals =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let names = quoted(line).filter(move |name| is_in_capitals(name) && ENDINGS.iter().any(|end| name.ends_with(end)));
    names.filter(|name| !constants.contains(*name))
}

/// `const NAME: type = number;`
fn constants_of(source: &str) -> impl Iterator<Item = (&str, u64)> {
    source.lines().filter_map(|line| {
        let (name, rest) = constant(line)?;
        let (_, value) = rest.split_once(" = ")?;
        Some((name, number(value.split_once(';')?.0)?))
    })
}

/// The name of the constant that a line declares, and what follows the name.
fn constant(line: &str) -> Option<(&str, &str)> {
    line.split_once("const ")?.1.split_once(':')
}

/// `name: number,`, from the first `fn default` on.
fn defaults_of(source: &str) -> impl Iterator<Item = (&str, u64)> {
    let (_, defaults) = source.split_once("fn default").unwrap_or_default();
    defaults.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once(": ")?;
        Some((name, number(value.strip_suffix(',')?)?))
    })
}

/// The value of a number as it is written in code, or a product of such.
fn number(written: &str) -> Option<u64> {
    if let Some((number_of, shift)) = written.split_once("<<") {
        return number(number_of)?.checked_shl(shift.trim().parse().ok()?);
    }
    written.split('*').map(|factor| factor.trim().replace('_', "").parse::<u64>().ok()).product()
}

/// The ways in which a page may write it.
fn written(name: &str, value: u64) -> impl Iterator<Item = String> {
    let bytes = [(" KiB", 1_u64 << 10), (" MiB", 1 << 20), (" GiB", 1 << 30)].into_iter();
    let name = name.to_lowercase();
    let times = [(" s", 1_000_000_u64), (" ms", 1_000)].into_iter().filter(move |_| name.contains("_us"));
    let units = bytes.chain(times).chain([("", 1)]);
    let whole = units.filter(move |(_, unit)| value.is_multiple_of(*unit) && value >= *unit);
    whole
        .map(move |(name, unit)| format!("{}{name}", in_thousands(value / unit)))
        .chain((value == 0).then(|| "0".into()))
}

fn in_thousands(value: u64) -> String {
    match value {
        0..1_000 => value.to_string(),
        _ => format!("{},{:03}", in_thousands(value / 1_000), value % 1_000),
    }
}

/// Whether a text has this number, and not as a part of another.
fn has_number(text: &str, number: &str) -> bool {
    let part = |c: Option<char>, next: Option<char>| match c {
        Some(',') => next.is_some_and(|next| next.is_ascii_digit()),
        c => c.is_some_and(|c| c.is_ascii_digit()),
    };
    text.match_indices(number).any(|(at, _)| {
        let (mut before, mut after) = (text[..at].chars().rev(), text[at + number.len()..].chars());
        !part(before.next(), before.next()) && !part(after.next(), after.next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<'a>(found: impl Iterator<Item = (&'a str, u64)>) -> Numbers {
        let mut numbers = Numbers::new();
        note(&mut numbers, found);
        numbers
    }

    #[test]
    fn a_number_that_is_not_that_of_the_code_is_named() {
        let constants =
            numbers(constants_of("/// Doc.\npub(crate) const A_MAX: usize = 32_768;\nconst B_US: u64 = 3 * 500_000;"));
        let defaults =
            numbers(defaults_of("x: 1,\nfn default() -> Self {\n    bytes_max: 4 << 20,\n    span_us: 60_000_000,\n}"));
        let wrong = |row| wrong_in(row, &constants, &defaults).collect::<Vec<_>>();
        assert_eq!(wrong("| `A_MAX`, `B_US` | answers | 32,768; 1,500 ms | it ends |"), Vec::<&str>::new());
        assert_eq!(wrong("| `A_MAX` | answers | 16,384 | it ends |"), ["A_MAX"]);
        assert_eq!(wrong("| `A_MAX` | answers | 132,768 or 32,768,000 | it ends |"), ["A_MAX"]);
        assert_eq!(wrong("| `bytes_max`, `span_us` | bytes | 4 MiB; 60 s | it ends |"), Vec::<&str>::new());
        assert_eq!(
            wrong("| `bytes_max` (a key), `span_us` | bytes | 8 MiB; 6 s | it ends |"),
            ["bytes_max", "span_us"]
        );
        assert_eq!(wrong("What `A_MAX` says, and | `x` | of no table"), Vec::<&str>::new());
    }

    #[test]
    fn a_constant_that_is_named_and_does_not_exist_is_found() {
        let source = "/// Doc.\npub(crate) const A_MAX: usize = 32_768;\n    const B_MIN: Duration = Duration::from_secs(1);\nconst fn c() {}";
        let names: HashSet<_> = source.lines().filter_map(constant).map(|(name, _)| name.to_owned()).collect();
        let unknown = |line| unknown_in(line, &names).collect::<Vec<_>>();
        assert_eq!(unknown("| `A_MAX`, `B_MIN` of `a/src/b.rs` | answers | 32,768 |"), Vec::<&str>::new());
        assert_eq!(unknown("| `A_MIN`, `B_MIN` | `GONE_PART` | `C_2_MAX` |"), ["A_MIN", "GONE_PART", "C_2_MAX"]);
        assert_eq!(
            unknown("What `gone_max` says, GONE_MAX and `GONE_US`, `FILES_BUSY`, `Gone::MAX`"),
            Vec::<&str>::new()
        );
    }
}
