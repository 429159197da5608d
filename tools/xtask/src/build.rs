//! Builds the guests' workspace so that the bytes do not depend on where it lies or who builds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wasmtime::Result;
use wasmtime::error::Context;

use crate::quickjs;
use crate::zig::{self, Zig};

const TRIPLE: &str = "wasm32-unknown-unknown";

/// One way for every allocation of QuickJS to reach the engine's heap, which zeroes what is freed. (The macro's name is
/// that of a sanitizer because QuickJS-ng bypasses its own pools under one; nothing else in it looks at the macro.)
const CFLAGS: &str = "-D__SANITIZE_ADDRESS__=1";

/// The folders of a checkout.
pub(crate) struct Places {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// The guests' workspace.
    pub(crate) guests: PathBuf,
    /// The shared target folder.
    pub(crate) target: PathBuf,
}

impl Places {
    /// Of the checkout that this task was built in.
    pub(crate) fn find() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the task lies outside of a checkout")?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => std::path::absolute(folder)?,
            None => root.join("target"),
        };
        Ok(Places { root: root.to_path_buf(), guests: root.join("guest/wasm"), target })
    }
}

/// Which members of the guests' workspace. The engine is built by itself, so that its bytes cannot depend on which
/// features of a shared library the others ask for.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    /// The engine.
    Engine,
    /// Every other member.
    Samples,
}

/// Compiles members of the workspace in `guests` into `folder`; the answer is the folder of the finished modules.
pub(crate) fn compile(guests: &Path, folder: &Path, zig: &Zig, which: Which) -> Result<PathBuf> {
    let done = folder.join(TRIPLE).join("release");
    remove_modules(&done)?;
    // First, since the paths to hide are those of the crates that are there.
    zig::run(cargo(guests).args(["fetch", "--locked", "--quiet"]), "cargo fetch for the guests")?;
    let registries = registries()?;
    let quickjs = quickjs::patched(guests, &registries)?;
    let mut cargo = cargo(guests);
    cargo
        .arg("--config")
        .arg(format!("paths=[{:?}]", quickjs.display().to_string()))
        .args(["build", "--release", "--locked", "--target", TRIPLE, "--target-dir"])
        .arg(folder)
        .args(match which {
            Which::Engine => &["--package", "catena-engine"][..],
            Which::Samples => &["--workspace", "--exclude", "catena-engine"],
        })
        .env("CC_wasm32_unknown_unknown", &zig.cc)
        .env("AR_wasm32_unknown_unknown", &zig.ar)
        .env("CFLAGS_wasm32_unknown_unknown", CFLAGS)
        .env("ZIG_GLOBAL_CACHE_DIR", &zig.cache)
        .env("ZIG_LOCAL_CACHE_DIR", &zig.cache)
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags(guests, &registries));
    zig::run(&mut cargo, "cargo build of the guests")?;
    Ok(done)
}

/// No module of an older build may be taken for one of this.
fn remove_modules(folder: &Path) -> Result<()> {
    for module in modules(folder)? {
        fs::remove_file(&module).with_context(|| format!("cannot remove {}", module.display()))?;
    }
    Ok(())
}

/// The modules in a folder, which need not exist.
pub(crate) fn modules(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "wasm") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Cargo, without whatever in the environment could change the bytes and is not pinned here.
fn cargo(guests: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(guests);
    for (key, _) in std::env::vars_os() {
        let Some(name) = key.to_str() else { continue };
        let changes =
            ["RUSTFLAGS", "CFLAGS", "TARGET_CFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "CARGO_INCREMENTAL"];
        if changes.contains(&name) || name.starts_with("CARGO_PROFILE_") || name.starts_with("CARGO_BUILD_") {
            cargo.env_remove(key);
        }
    }
    cargo
}

/// The folders in which cargo keeps the sources of crates.
fn registries() -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|h| h.join(".cargo"))).context("there is no home folder")?;
    Ok(fs::read_dir(home.join("registry/src"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|registry| registry.path())
        .collect())
}

fn rust_flags(guests: &Path, registries: &[PathBuf]) -> String {
    let mut flags = vec![format!("--remap-path-prefix={}=/guests", guests.display())];
    // The folder of a registry is named after where it came from; the crates in it are the same.
    flags.extend(registries.iter().map(|registry| format!("--remap-path-prefix={}=/crates", registry.display())));
    flags.join("\x1f")
}
