//! The sandbox of this process: made once, its engine compiled once and kept from one run of the command to the next.

use std::path::PathBuf;

use catena::{Sandbox, SandboxConfig};

use crate::{failure::Failure, output::Output, progress::Progress};

/// What to do where it cannot be made.
pub(crate) const HELP: &str = "see what the message names, such as memory";

/// Makes it. The engine comes out of the user's cache of compiled modules; the first time it is compiled, which takes seconds.
pub(crate) async fn make(output: &Output) -> Result<Sandbox, Failure> {
    let _progress = Progress::new(output, "preparing the sandbox: the first time takes some seconds");
    let make = || Sandbox::new(SandboxConfig { cache_dir: cache_dir(), ..SandboxConfig::default() });
    let made = tokio::task::spawn_blocking(make).await.map_err(|why| why.to_string());
    let made = made.and_then(|made| made.map_err(|why| why.to_string()));
    made.map_err(|why| Failure::cannot_start(format!("the sandbox cannot be made: {why}"), HELP))
}

/// Where the XDG base directory specification puts caches. A folder that cannot be used costs time at each start, and nothing else.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    let folder = base.join("catena").join("modules");
    std::fs::create_dir_all(&folder).is_ok().then_some(folder)
}
