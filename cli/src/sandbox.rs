//! The sandbox of this process: made once, its engine compiled once and kept from one run of the command to the next.

use std::path::{Path, PathBuf};

use catena::{Limits, Sandbox, SandboxConfig};

use crate::{failure::Failure, output::Output, progress::Progress};

/// Makes it. The engine comes out of the user's cache of compiled modules; the first time it is compiled, which takes seconds.
pub(crate) async fn make(limits: Limits, output: &Output) -> Result<Sandbox, Failure> {
    make_with(limits, None, output).await
}

/// The same, with compiled modules kept in the folder named, if one is.
pub(crate) async fn make_with(limits: Limits, named: Option<PathBuf>, output: &Output) -> Result<Sandbox, Failure> {
    let _progress = Progress::new(output, "preparing the sandbox: the first time takes some seconds");
    let made = tokio::task::spawn_blocking(move || match named {
        Some(dir) => in_folder(&limits, Some(&dir)),
        None => with_cache(&limits),
    });
    let made = made.await;
    let made = made.unwrap_or_else(|why| Err(why.to_string()));
    made.map_err(|why| {
        Failure::cannot_start(
            format!("the sandbox cannot be made: {why}"),
            "see what the message names, such as memory",
        )
    })
}

fn with_cache(limits: &Limits) -> Result<Sandbox, String> {
    // A folder that cannot be used costs time at each start, and nothing else.
    let cached = cache_dir().and_then(|dir| in_folder(limits, Some(&dir)).ok());
    cached.map_or_else(|| in_folder(limits, None), Ok)
}

fn in_folder(limits: &Limits, dir: Option<&Path>) -> Result<Sandbox, String> {
    let config =
        SandboxConfig { limits: limits.clone(), cache_dir: dir.map(Path::to_owned), ..SandboxConfig::default() };
    Sandbox::new(config).map_err(|why| why.to_string())
}

/// Where the XDG base directory specification puts caches.
fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("catena").join("modules"))
}
