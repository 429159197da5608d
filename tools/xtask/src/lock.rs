//! `guest/engine.lock`: the one hash that the engine must have, and what it was made of.

use std::fs;
use std::path::Path;

use wasmtime::error::Context;
use wasmtime::{Result, bail};

use crate::build::Places;
use crate::zig;

/// Fails when the engine is not the one that is locked.
pub(crate) fn check(places: &Places, engine: &[u8]) -> Result<()> {
    let path = places.root.join("guest/engine.lock");
    let hash = blake3::hash(engine).to_hex();
    let Ok(text) = fs::read_to_string(&path) else {
        bail!("{} is missing; `xtask guests --update-lock` writes it", path.display());
    };
    let locked = text.split_whitespace().next().unwrap_or_default();
    if locked != hash.as_str() {
        bail!(
            "the engine's hash is not the locked one\n  built:  {hash}\n  locked: {locked} ({})\n\
             If the engine was changed on purpose, run `cargo run --release -p xtask -- guests --update-lock` and commit the file; \
             otherwise something in this build is not pinned.",
            path.display()
        );
    }
    Ok(())
}

/// Locks the engine.
pub(crate) fn update(places: &Places, engine: &[u8]) -> Result<()> {
    let path = places.root.join("guest/engine.lock");
    let guests = fs::read_to_string(places.guests.join("Cargo.lock")).context("cannot read guest/wasm/Cargo.lock")?;
    let house = fs::read_to_string(places.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let mut parts = vec![format!("rustc {}", rust_version(&places.root)?)];
    for (lock, name) in
        [(&guests, "rquickjs-sys"), (&guests, "minicbor"), (&guests, "dlmalloc"), (&house, "wasmtime-wizer")]
    {
        parts.push(format!("{name} {}", version(lock, name).with_context(|| format!("{name} is not locked"))?));
    }
    parts.push(format!("ziglang {}", zig::VERSION));
    let line = format!("{} engine.wasm: {}\n", blake3::hash(engine).to_hex(), parts.join(", "));
    fs::write(&path, line).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// The version of a crate in a Cargo.lock.
pub(crate) fn version(lock: &str, name: &str) -> Option<String> {
    let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(after.split('"').next()?.to_owned())
}

fn rust_version(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join("rust-toolchain.toml")).context("cannot read rust-toolchain.toml")?;
    let channel = text.lines().find_map(|l| l.strip_prefix("channel = "));
    Ok(channel.context("rust-toolchain.toml names no channel")?.trim_matches('"').to_owned())
}
