//! The sandbox of this process: made once, its engine compiled once and kept from one run of the command to the next.

use std::path::PathBuf;

use catena::{Limits, Sandbox, SandboxConfig};

use crate::{failure::Failure, output::Output, progress::Progress};

/// Makes it. The engine comes out of the user's cache of compiled modules; the first time it is compiled, which takes seconds.
pub(crate) async fn make(output: &Output) -> Result<Sandbox, Failure> {
    make_with(Limits::default(), None, output).await
}

/// The same within these limits, and with compiled modules kept in the folder named, if one is.
pub(crate) async fn make_with(limits: Limits, named: Option<PathBuf>, output: &Output) -> Result<Sandbox, Failure> {
    let _progress = Progress::new(output, "preparing the sandbox: the first time takes some seconds");
    let make = move || match named {
        Some(dir) => in_folder(&limits, Some(dir)),
        // A folder that cannot be used costs time at each start, and nothing else.
        None => in_folder(&limits, cache_dir()).or_else(|_| in_folder(&limits, None)),
    };
    let made = tokio::task::spawn_blocking(make).await.unwrap_or_else(|why| Err(why.to_string()));
    made.map_err(|why| {
        let message = format!("the sandbox cannot be made: {why}");
        Failure::cannot_start(message, "see what the message names, such as memory")
    })
}

fn in_folder(limits: &Limits, cache_dir: Option<PathBuf>) -> Result<Sandbox, String> {
    let config = SandboxConfig { limits: limits.clone(), cache_dir, ..SandboxConfig::default() };
    Sandbox::new(config).map_err(|why| why.to_string())
}

/// Where the XDG base directory specification puts caches.
fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("catena").join("modules"))
}
