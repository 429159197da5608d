//! The folders that `catena dev` serves.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::failure::Failure;

/// Prefix of the names of temporary folders.
const PREFIX: &str = "catena-dev-";

/// A folder with one folder per site.
pub(crate) enum DataFolder {
    Named(PathBuf),
    /// Made for this run, accessible to this user only, and removed on drop. If that fails, it is in the temporary folder, which the system clears.
    Fresh(TempDir),
}

impl DataFolder {
    /// Opens the named folder; makes a temporary one if none is named.
    pub(crate) fn open<const N: usize>(named: Option<&Path>, sites: [&str; N]) -> Result<Self, Failure> {
        let owners = fs::Permissions::from_mode(0o700);
        let fresh = || tempfile::Builder::new().prefix(PREFIX).permissions(owners).tempdir();
        let folder = match named {
            Some(root) => Self::Named(root.to_owned()),
            None => Self::Fresh(fresh().map_err(|why| cannot_make(&std::env::temp_dir().join(PREFIX), &why))?),
        };
        for site in sites {
            let path = folder.of(site);
            fs::create_dir_all(&path).map_err(|why| cannot_make(&path, &why))?;
        }
        Ok(folder)
    }

    /// The folder of one site.
    pub(crate) fn of(&self, site: &str) -> PathBuf {
        match self {
            Self::Named(root) => root.join(site),
            Self::Fresh(root) => root.path().join(site),
        }
    }
}

fn cannot_make(path: &Path, why: &io::Error) -> Failure {
    let message = format!("the folder {} cannot be made: {why}", path.display());
    Failure::cannot_start(message, "name another one with --data DIR")
}
