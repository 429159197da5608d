//! The folders that `catena dev` serves.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::failure::Failure;

/// A folder with one folder per site. One that was made for this run is removed when this is dropped.
pub(crate) struct DataFolder {
    root: PathBuf,
    ours: bool,
}

impl DataFolder {
    /// Takes the folder named, else makes a new one that only this user may enter.
    pub(crate) fn open<const N: usize>(named: Option<&Path>, sites: [&str; N]) -> Result<Self, Failure> {
        let folder = match named {
            Some(root) => Self { root: root.to_owned(), ours: false },
            None => Self { root: fresh()?, ours: true },
        };
        for site in sites {
            let path = folder.of(site);
            fs::create_dir_all(&path).map_err(|why| cannot_make(&path, &why))?;
        }
        Ok(folder)
    }

    /// The folder of one site.
    pub(crate) fn of(&self, site: &str) -> PathBuf {
        self.root.join(site)
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if self.ours {
            // What cannot be removed lies where the system clears up.
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// Fails rather than take what somebody else has put there.
fn fresh() -> Result<PathBuf, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("catena-dev-{}-{:x}", std::process::id(), now.as_nanos());
    let path = std::env::temp_dir().join(name);
    DirBuilder::new().mode(0o700).create(&path).map_err(|why| cannot_make(&path, &why))?;
    Ok(path)
}

fn cannot_make(path: &Path, why: &io::Error) -> Failure {
    Failure::cannot_start(
        format!("the folder {} cannot be made: {why}", path.display()),
        "name another one with --data DIR",
    )
}
