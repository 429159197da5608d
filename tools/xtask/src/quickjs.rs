//! The JavaScript engine's sources: the pinned crate from the registry, with `guest/wasm/engine/quickjs.patch` applied.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wasmtime::Result;
use wasmtime::error::Context;

use crate::{guests, lock, zig};

const CRATE: &str = "rquickjs-sys";

/// Makes the patched copy, and returns its folder: below the guests' workspace, since cargo names what lies elsewhere after where
/// that is, and the names would show in the engine's bytes. The crate itself stays what `Cargo.lock` pins.
pub(crate) fn patched(guests: &Path, registries: &[PathBuf]) -> Result<PathBuf> {
    let pinned = fs::read_to_string(guests.join("Cargo.lock")).context("cannot read guest/wasm/Cargo.lock")?;
    let folder = format!("{CRATE}-{}", lock::version(&pinned, CRATE).context("QuickJS is not locked")?);
    let crates = registries.iter().map(|registry| registry.join(&folder)).find(|source| source.is_dir());
    let source = crates.with_context(|| format!("cargo has fetched no {folder}"))?;
    let copy = guests.join("target").join(CRATE);
    if copy.exists() {
        fs::remove_dir_all(&copy).with_context(|| format!("cannot empty {}", copy.display()))?;
    }
    guests::copy_folder(&source, &copy)?;
    let mut apply = Command::new("git");
    apply.args(["apply", "--whitespace=nowarn"]).arg(guests.join("engine/quickjs.patch"));
    // Not as a part of the repository that the copy lies in, which ignores it.
    apply.current_dir(&copy).env("GIT_CEILING_DIRECTORIES", guests.join("target")).env_remove("GIT_DIR");
    zig::run(&mut apply, "git apply of guest/wasm/engine/quickjs.patch")?;
    Ok(copy)
}
