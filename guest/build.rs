//! Brings the JavaScript engine into the crate, and makes sure that it is the one that is pinned.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let engine = match env::var_os("CATENA_ENGINE_WASM") {
        Some(path) => PathBuf::from(path),
        None => here.join("../target/guests/engine.wasm"),
    };
    let lock = here.join("engine.lock");
    println!("cargo::rerun-if-env-changed=CATENA_ENGINE_WASM");
    println!("cargo::rerun-if-changed={}", engine.display());
    println!("cargo::rerun-if-changed={}", lock.display());
    let bytes = fs::read(&engine).map_err(|error| {
        format!("there is no JavaScript engine at {} ({error}): run `make engine`", engine.display())
    })?;
    let found = blake3::hash(&bytes).to_hex();
    if lock.exists() {
        let pinned = fs::read_to_string(&lock)?;
        let pinned = pinned.split_whitespace().next().unwrap_or_default();
        if pinned != found.as_str() {
            return Err(format!(
                "the JavaScript engine at {} has the hash {found}, and engine.lock pins {pinned}: run `make engine`",
                engine.display()
            )
            .into());
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("engine.wasm");
    fs::write(out, bytes)?;
    Ok(())
}
