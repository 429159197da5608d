//! `tidy`: the invariants of ARCHITECTURE.md that no compiler checks.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use wasmtime::{Result, bail, error::Context as _};

use crate::{docs, header, limits, modules, named};

/// Which of the house's crates each crate may use: the seams, from top to bottom.
const MAY_USE: &[(&str, &[&str])] = &[
    ("catena-wire", &[]),
    ("catena-core", &["catena-wire"]),
    ("catena-net", &[]),
    ("catena-segment", &[]),
    ("catena-fabric", &["catena-segment"]),
    ("catena-guest", &["catena-wire"]),
    ("catena", &["catena-core", "catena-directory", "catena-guest", "catena-net", "catena-segment", "catena-wire"]),
    ("catena-directory", &["catena-wire"]),
    ("catena-names-file", &["catena-directory"]),
    ("catena-multicast", &["catena-directory"]),
    ("catena-etcd", &["catena-directory"]),
    ("catena-oci", &["catena-directory"]),
    ("catena-files", &[]),
    ("catena-bridge", &["catena"]),
    ("catena-bridge-nfs", &["catena", "catena-bridge", "catena-files"]),
    ("catena-script", &[]),
    ("catena-json", &["catena"]),
    ("catena-gateway", &["catena", "catena-json"]),
    ("catena-apps", &["catena", "catena-files", "catena-script", "catena-bridge-nfs"]),
    (
        "catena-cli",
        &[
            "catena",
            "catena-apps",
            "catena-bridge",
            "catena-bridge-nfs",
            "catena-etcd",
            "catena-fabric",
            "catena-files",
            "catena-gateway",
            "catena-guest",
            "catena-json",
            "catena-multicast",
            "catena-names-file",
            "catena-oci",
            "catena-script",
        ],
    ),
    ("catena-clerk", &["catena"]),
    ("catena-dfs", &["catena", "catena-clerk", "catena-files", "catena-ganesha"]),
    ("catena-c", &["catena"]),
    ("catena-web", &["catena", "catena-gateway"]),
    ("catena-corsair", &["catena"]),
    ("catena-mapreduce", &["catena"]),
    ("catena-quatrain", &[]),
    ("catena-ganesha", &["catena-bridge-nfs"]),
    ("catena-glickr", &["catena", "catena-gateway"]),
    ("catena-chaos", &["catena", "catena-core"]),
    (
        "catena-bench",
        &[
            "catena",
            "catena-apps",
            "catena-core",
            "catena-fabric",
            "catena-files",
            "catena-guest",
            "catena-net",
            "catena-wire",
        ],
    ),
    ("xtask", &[]),
];

/// What only the crates named may know; a name that ends in `*` stands for all that begin so.
const KNOWN_ONLY_BY: &[(&str, &[&str])] = &[
    ("wasmtime*", &["catena-guest", "xtask"]),
    ("wasmparser", &["catena-guest"]),
    ("socket2", &["catena-net", "catena-multicast"]),
    ("reqwest", &["catena-etcd", "catena-oci"]),
    ("nfs3*", &["catena-bridge-nfs", "catena-dfs"]),
    ("libc", &["catena-fabric", "catena-guest"]),
    ("cap-std", &["catena-files", "catena-gateway", "catena-web"]),
    ("hyper*", &["catena-gateway", "catena-web"]),
    ("http-body*", &["catena-gateway", "catena-web"]),
    ("swc_*", &["catena-script"]),
    ("tonic*", &["catena-bench"]),
    ("prost*", &["catena-bench"]),
    ("sqlx*", &["catena-corsair"]),
    ("plotters*", &["catena-quatrain"]),
    ("clap*", &["catena-cli", "catena-chaos", "catena-dfs", "catena-web"]),
];

/// Files that may hold `unsafe`, each small and with its reasons.
const UNSAFE_LEAVES: &[&str] = &[
    "guest/src/pages/faults.rs",
    "guest/src/pages/kernel.rs",
    "guest/wasm/engine/src/",
    "guest/wasm/sdk/src/",
    "segment/fabric/src/library.rs",
    "segment/fabric/src/port.rs",
    "segment/fabric/src/provider.rs",
    "segment/fabric/src/pump.rs",
    "sdk/c/src/",
    "segment/src/bulk.rs",
    "segment/src/mapping.rs",
    "wire/tests/hostile/counting.rs",
];

/// What was promised to be small: files, and how many lines of code they may have together. What is beside the connector of Jetty measures it.
const CODE_LINES_MAX: &[(&str, &str, usize)] =
    &[("sdk/java/jetty/src/main/*.java", "Measured.java", 400), ("apps/web/examples/mounted.rs", "", 50)];

/// Files of which each may have so many lines. A node only routes events to its parts: a file there that grows does the work of a part.
const FILE_LINES_MAX: &[(&str, usize)] = &[("core/src/node/*.rs", 200)];

/// The listing of the root is where a reader begins: so many folders it may have, each with a line in the first table of `ARCHITECTURE.md`.
const ROOT_FOLDERS_MAX: usize = 16;

/// Crates that must build where there is no operating system and no standard library.
const NO_STD: [&str; 2] = ["catena-wire", "catena-core"];

pub(crate) fn tidy() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut faults = dependencies(&root)?;
    for file in files(&root, "*.rs")? {
        faults.extend(file_faults(&root, &file)?);
    }
    faults.extend(modules::faults(&root, "core/src", &files(&root, "core/src/*.rs")?)?);
    faults.extend(docs::faults(&root, &files(&root, "*.md")?)?);
    faults.extend(limits::faults(&root, &files(&root, "*.rs")?)?);
    faults.extend(named::faults(&root, &files(&root, "*.rs")?)?);
    faults.extend(header::faults(&root)?);
    faults.extend(too_long(&root)?);
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    faults.extend(root_folders(&files(&root, "*")?, &map));
    for name in ["wire", "core"] {
        let text = std::fs::read_to_string(root.join(name).join("src/lib.rs"))?;
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !text.contains(attribute) {
                faults.push(format!("{name}/src/lib.rs has lost {attribute}"));
            }
        }
    }
    if !faults.is_empty() {
        bail!("the house is not tidy:\n  {}", faults.join("\n  "));
    }
    without_std(&root)?;
    eprintln!(
        "tidy: dependencies point one way, the files of core too, wire and core build without std, unsafe stays in its leaves, links lead somewhere, limits are told as they are, tests that are named exist, what was promised to be small is"
    );
    Ok(())
}

fn dependencies(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let uses = package["dependencies"].as_array().into_iter().flatten();
        // Tests may look further than what they test.
        let uses = uses.filter(|one| one["kind"] != "dev").filter_map(|one| one["name"].as_str());
        faults.extend(uses.filter_map(|used| fault_of(name, used)));
    }
    Ok(faults)
}

fn fault_of(name: &str, used: &str) -> Option<String> {
    if used == "catena" || used.starts_with("catena-") {
        let Some((_, allowed)) = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name) else {
            return Some(format!("{name} is not in the table of tools/xtask/src/tidy.rs; say what it may use"));
        };
        return (!allowed.contains(&used)).then(|| format!("{name} may not use {used}"));
    }
    let (_, knowers) = KNOWN_ONLY_BY.iter().find(|(pattern, _)| matches(pattern, used))?;
    (!knowers.contains(&name)).then(|| format!("{name} may not know {used}; only {} may", knowers.join(" and ")))
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

fn files(root: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let output = Command::new("git").args(["ls-files", pattern]).current_dir(root).output().context("git ls-files")?;
    let listed = String::from_utf8(output.stdout)?;
    Ok(listed.lines().map(PathBuf::from).filter(|file| root.join(file).exists()).collect())
}

fn file_faults(root: &Path, file: &Path) -> Result<Vec<String>> {
    let (text, name) = (std::fs::read_to_string(root.join(file))?, file.display().to_string());
    let mut faults = Vec::new();
    let leaf = UNSAFE_LEAVES.iter().any(|leaf| name.starts_with(leaf));
    // Written apart, so that this file does not find itself.
    if !leaf && text.contains(concat!("allow(unsafe", "_code")) {
        faults.push(format!("{name} allows unsafe code and is no reviewed leaf (tools/xtask/src/tidy.rs)"));
    }
    let unexplained = unexplained(&text).into_iter();
    faults.extend(
        unexplained.map(|line| format!("{name}:{line}: unsafe, and no `SAFETY:` above it says why it is sound")),
    );
    Ok(faults)
}

/// The lines that open an `unsafe` block or implementation without a note shortly above.
fn unexplained(text: &str) -> Vec<usize> {
    /// A note may stand above the statement that the block is in.
    const LINES_ABOVE: usize = 6;
    let lines: Vec<&str> = text.lines().collect();
    let opens = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        [concat!("unsafe", " {"), concat!("unsafe", " impl")].iter().any(|word| code.contains(word))
    };
    let told = |at: usize| lines[at.saturating_sub(LINES_ABOVE)..at].iter().any(|line| line.contains("// SAFETY: "));
    (0..lines.len()).filter(|at| opens(lines[*at]) && !told(*at)).map(|at| at + 1).collect()
}

fn too_long(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (pattern, beside, lines_max) in CODE_LINES_MAX {
        let counted = files(root, pattern)?.into_iter().filter(|file| beside.is_empty() || !file.ends_with(beside));
        let texts = counted.map(|file| std::fs::read_to_string(root.join(file))).collect::<Result<Vec<_>, _>>()?;
        let lines: usize = texts.iter().map(|text| code_lines(text)).sum();
        if !(1..=*lines_max).contains(&lines) {
            faults.push(format!("{pattern} has {lines} lines of code; 1 to {lines_max} were promised"));
        }
    }
    for (pattern, lines_max) in FILE_LINES_MAX {
        let counted = files(root, pattern)?;
        if counted.is_empty() {
            faults.push(format!("there is no {pattern}"));
        }
        for file in counted {
            let lines = std::fs::read_to_string(root.join(&file))?.lines().count();
            if lines > *lines_max {
                faults.push(format!("{} has {lines} lines; {lines_max} were promised", file.display()));
            }
        }
    }
    Ok(faults)
}

fn root_folders(files: &[PathBuf], map: &str) -> Vec<String> {
    let first = |file: &PathBuf| Some(file.parent()?.iter().next()?.to_string_lossy().into_owned());
    let folders: BTreeSet<String> = files.iter().filter_map(first).filter(|name| !name.starts_with('.')).collect();
    let unnamed = folders.iter().filter(|name| !map.lines().any(|line| line.starts_with(&format!("| `{name}` | "))));
    let mut faults: Vec<String> = unnamed.map(|name| format!("ARCHITECTURE.md has no line for {name}/")).collect();
    if folders.len() > ROOT_FOLDERS_MAX {
        faults.push(format!("{} folders at the root; {ROOT_FOLDERS_MAX} were promised", folders.len()));
    }
    faults
}

/// Lines that are neither blank nor a comment's nor import something.
fn code_lines(text: &str) -> usize {
    const NO_CODE: [&str; 6] = ["//", "/*", "*", "import ", "package ", "use "];
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !NO_CODE.iter().any(|start| line.starts_with(start)))
        .count()
}

/// The proof that nothing of an operating system is used: this target has no standard library at all.
fn without_std(root: &Path) -> Result<()> {
    let packages = NO_STD.iter().flat_map(|name| ["-p", name]);
    let status = Command::new("cargo")
        .args(["check", "--locked", "--release", "--target", "wasm32v1-none", "--target-dir", "target/no-std"])
        .args(packages)
        .current_dir(root)
        .status()
        .context("cargo check for wasm32v1-none")?;
    if !status.success() {
        bail!("wire or core no longer builds without the standard library");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{code_lines, fault_of, root_folders, unexplained};

    #[test]
    fn an_unsafe_block_says_why_it_is_sound() {
        let block = concat!("    let x = unsafe", " { call() };\n");
        let told = format!("    // SAFETY: because.\n    // And so on.\n{block}");
        assert!(unexplained(&told).is_empty());
        assert_eq!(unexplained(block), [1]);
        assert_eq!(unexplained(&format!("{told}{}{block}", "    line();\n".repeat(6))), [10]);
    }

    #[test]
    fn lines_of_code_are_those_that_do_something() {
        assert_eq!(code_lines("package a;\n\nimport b;\n/** Why.\n * More. */\nclass C { // one\n    int d;\n}\n"), 3);
    }

    #[test]
    fn what_breaks_the_seams_is_named() {
        let cases = [
            ("catena-core", "catena-net", true),
            ("catena-core", "catena-wire", false),
            ("catena", "wasmtime", true),
            ("catena-guest", "wasmtime", false),
            ("catena-net", "tonic-build", true),
            ("catena-new", "catena", true),
            ("catena", "serde", false),
        ];
        for (name, used, faulty) in cases {
            assert_eq!(fault_of(name, used).is_some(), faulty, "{name} uses {used}");
        }
    }

    #[test]
    fn folders_at_the_root_are_few_and_each_has_its_line() {
        let of = |folders: usize| -> Vec<PathBuf> {
            let folders = (0..folders).map(|number| PathBuf::from(format!("f{number}/a.rs")));
            folders.chain(["Makefile", ".ci/run"].map(PathBuf::from)).collect()
        };
        let map: String = (0..17).map(|number| format!("| `f{number}` | what it is |\n")).collect();
        assert!(root_folders(&of(16), &map).is_empty());
        assert_eq!(root_folders(&of(17), &map).len(), 1, "one too many");
        assert_eq!(root_folders(&of(2), "| `f1` | what it is |"), ["ARCHITECTURE.md has no line for f0/"]);
    }
}
