//! The C compiler for wasm32: the pinned zig from PyPI, in `target/tools`, behind scripts that speak to the `cc` crate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use wasmtime::error::Context;
use wasmtime::{Result, bail, ensure};

/// Must be what `zig-requirements.txt` pins.
pub(crate) const VERSION: &str = "0.17.1";
const REQUIREMENTS: &str = include_str!("../zig-requirements.txt");

/// Scripts that stand for a C compiler and its archiver.
pub(crate) struct Zig {
    /// Compiles C for wasm32.
    pub(crate) cc: PathBuf,
    /// Puts objects into an archive.
    pub(crate) ar: PathBuf,
    /// Where zig keeps what it has built.
    pub(crate) cache: PathBuf,
}

/// Finds zig (`CATENA_ZIG`, else the installed one, else installs it) and writes the scripts.
pub(crate) fn find(target: &Path) -> Result<Zig> {
    let tools = target.join("tools");
    fs::create_dir_all(&tools).with_context(|| format!("cannot create {}", tools.display()))?;
    let zig = match std::env::var_os("CATENA_ZIG") {
        Some(path) => PathBuf::from(path),
        None => installed(&tools)?,
    };
    check_version(&zig)?;
    let zig = zig.canonicalize().with_context(|| format!("cannot resolve {}", zig.display()))?;
    Ok(Zig {
        // The `cc` crate names a target that zig does not know; without an operating system is what is meant.
        cc: script(
            &tools.join("zig-cc"),
            &format!(
                "for arg do\n  shift\n  case \"$arg\" in\n    --target=*) ;;\n    *) set -- \"$@\" \"$arg\" ;;\n  esac\ndone\nexec '{}' cc -target wasm32-freestanding \"$@\"\n",
                zig.display()
            ),
        )?,
        ar: script(&tools.join("zig-ar"), &format!("exec '{}' ar \"$@\"\n", zig.display()))?,
        cache: tools.join("zig-cache"),
    })
}

fn installed(tools: &Path) -> Result<PathBuf> {
    let venv = tools.join(format!("zig-{VERSION}"));
    if let Some(zig) = zig_in(&venv) {
        return Ok(zig);
    }
    eprintln!("installing zig {VERSION} into {} (about 100 MB, once) ...", venv.display());
    run(
        Command::new("python3").arg("-m").arg("venv").arg(&venv),
        "python3 -m venv (on Debian: apt install python3-venv)",
    )?;
    let list = tools.join("zig-requirements.txt");
    fs::write(&list, REQUIREMENTS).with_context(|| format!("cannot write {}", list.display()))?;
    run(
        Command::new(venv.join("bin/pip"))
            .args([
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--require-hashes",
                "--only-binary=:all:",
                "-r",
            ])
            .arg(&list),
        "pip install ziglang",
    )?;
    let Some(zig) = zig_in(&venv) else {
        bail!("pip has installed ziglang, but there is no zig in {}; remove that folder and try again", venv.display());
    };
    Ok(zig)
}

fn zig_in(venv: &Path) -> Option<PathBuf> {
    let pythons = fs::read_dir(venv.join("lib")).ok()?;
    pythons.flatten().map(|p| p.path().join("site-packages/ziglang/zig")).find(|zig| zig.is_file())
}

fn check_version(zig: &Path) -> Result<()> {
    let output = Command::new(zig).arg("version").output();
    let output = output.with_context(|| format!("cannot run {}", zig.display()))?;
    let found = String::from_utf8_lossy(&output.stdout);
    ensure!(
        found.trim() == VERSION,
        "{} is zig {}, but the engine is pinned to {VERSION}",
        zig.display(),
        found.trim()
    );
    Ok(())
}

fn script(path: &Path, body: &str) -> Result<PathBuf> {
    let text = format!("#!/bin/sh\n{body}");
    // Written only when it differs: a build that runs beside this one may hold it open.
    if fs::read_to_string(path).ok().as_deref() != Some(&text) {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(path.to_path_buf())
}

/// Runs a command, whose output people see.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {what}"))?;
    ensure!(status.success(), "{what} failed ({status})");
    Ok(())
}
