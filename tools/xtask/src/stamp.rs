//! What the guests are made of, as one hash: nothing is built again when it has not changed.

use std::fs;
use std::path::{Path, PathBuf};

use wasmtime::Result;
use wasmtime::error::Context;

use crate::build::Places;
use crate::{lock, zig};

/// The hash of every input of the guests' build.
pub(crate) fn inputs(places: &Places) -> Result<String> {
    let mut files = Vec::new();
    for folder in [&places.guests, &places.root.join("tools/xtask/src")] {
        collect(folder, &mut files)?;
    }
    files.push(places.root.join("rust-toolchain.toml"));
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in &files {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(&places.root).unwrap_or(file);
        hasher.update(name.as_os_str().as_encoded_bytes()).update(&[0]);
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
    }
    let house = fs::read_to_string(places.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    hasher
        .update(lock::version(&house, "wasmtime-wizer").unwrap_or_default().as_bytes())
        .update(zig::VERSION.as_bytes());
    Ok(hasher.finalize().to_hex().to_string())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                collect(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}
