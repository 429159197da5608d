//! The tasks `guests` and `verify-engine`.

use std::fs;
use std::path::Path;
use std::time::Instant;

use wasmtime::error::Context;
use wasmtime::{Result, bail};

use crate::build::{self, Places, Which};
use crate::zig::{self, Zig};
use crate::{bake, lock, stamp};

/// The engine's module before its image is taken, as cargo names it.
const ENGINE: &str = "catena_engine.wasm";

/// Builds every guest into `target/guests`.
pub(crate) fn guests(update_lock: bool) -> Result<()> {
    let places = Places::find()?;
    let out = places.target.join("guests");
    let stamp_file = out.join("inputs.blake3");
    let inputs = stamp::inputs(&places)?;
    let engine_file = out.join("engine.wasm");
    if fs::read_to_string(&stamp_file).ok().as_deref() == Some(&inputs) && engine_file.is_file() {
        eprintln!("guests: unchanged since the last build");
        return settle(&places, &fs::read(&engine_file)?, update_lock);
    }
    let zig = zig::find(&places.target)?;
    eprintln!("guests: building (the first time takes about a minute) ...");
    let began = Instant::now();
    let folder = places.target.join("guests-build");
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let engine = baked_engine(&build::compile(&places.guests, &folder, &zig, Which::Engine)?)?;
    replace(&engine_file, &engine)?;
    for module in build::modules(&build::compile(&places.guests, &folder, &zig, Which::Samples)?)? {
        let name = module.file_name().context("a module without a name")?;
        let bytes = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
        replace(&out.join(name), &bytes)?;
    }
    settle(&places, &engine, update_lock)?;
    fs::write(&stamp_file, inputs).with_context(|| format!("cannot write {}", stamp_file.display()))?;
    eprintln!(
        "guests: done in {:.0} s, engine.wasm has {} KiB, blake3 {}",
        began.elapsed().as_secs_f64(),
        engine.len() / 1024,
        blake3::hash(&engine).to_hex()
    );
    Ok(())
}

fn settle(places: &Places, engine: &[u8], update_lock: bool) -> Result<()> {
    if update_lock { lock::update(places, engine) } else { lock::check(places, engine) }
}

fn baked_engine(built: &Path) -> Result<Vec<u8>> {
    let file = built.join(ENGINE);
    let raw = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    bake::bake(&raw)
}

/// Whoever reads the file while it is written sees the old one or the new one.
fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let fresh = file.with_extension("new");
    fs::write(&fresh, bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, file).with_context(|| format!("cannot write {}", file.display()))
}

/// Builds the engine twice from nothing: from this checkout, and from a copy of its sources elsewhere.
pub(crate) fn verify_engine() -> Result<()> {
    let places = Places::find()?;
    let found = zig::find(&places.target)?;
    let work = places.target.join("verify-engine");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot empty {}", work.display()))?;
    }
    let copy = work.join("another place/for the same sources");
    copy_folder(&places.guests, &copy)?;
    let mut hashes = Vec::new();
    for (label, sources) in [("first", &places.guests), ("second", &copy)] {
        eprintln!("verify-engine: {label} build, from {} ...", sources.display());
        // A cache of its own, so that the C compiler works twice, too.
        let fresh = Zig { cc: found.cc.clone(), ar: found.ar.clone(), cache: work.join(format!("{label}-zig-cache")) };
        let built = build::compile(sources, &work.join(format!("{label}-target")), &fresh, Which::Engine)?;
        let engine = baked_engine(&built)?;
        hashes.push(blake3::hash(&engine));
        eprintln!("verify-engine: {label} build has blake3 {}", blake3::hash(&engine).to_hex());
        lock::check(&places, &engine)?;
    }
    if hashes.first() != hashes.last() {
        bail!("two builds of the engine differ");
    }
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    eprintln!("verify-engine: both builds are the locked engine");
    Ok(())
}

pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                copy_folder(&entry.path(), &target)?;
            }
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}
