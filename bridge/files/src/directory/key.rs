//! What a handle of the embedded service is made of.
//!
//! A handle is the file's identity (device, inode, time of birth) and its path at that time. It needs no table on the
//! server, so it survives a restart; the identity is compared at each use, so that a handle whose file is gone, or whose
//! name was given to another file, is stale and never means the other file. It is no secret and no permission: whoever
//! can call the service can look every path up anyway.

use cap_std::fs::{Metadata, MetadataExt};
use serde_bytes::ByteBuf;

use crate::error::FileError;
use crate::limits::PATH_BYTES_MAX;
use crate::status::Status;
use crate::{Handle, check};

/// The first byte of every handle, which tells it from handles of other services or of a later layout.
const LAYOUT: u8 = 0xC1;
const KEY_BYTES: usize = 24;

/// Tells one file from every other that this server ever had: inode numbers are reused, but not with the same time of birth. (Where the file system keeps no
/// time of birth it is 0 here, and a new file with the old inode number at the old path is taken for the old one.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    device: u64,
    inode: u64,
    born_ns: u64,
}

impl FileKey {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let born = metadata.created().ok().and_then(|at| at.into_std().duration_since(std::time::UNIX_EPOCH).ok());
        let born_ns = born.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
        Self { device: metadata.dev(), inode: metadata.ino(), born_ns }
    }

    /// Device, inode, time of birth.
    pub(super) const fn parts(&self) -> [u64; 3] {
        [self.device, self.inode, self.born_ns]
    }
}

/// A handle, taken apart: which file, and where it was. The root's path is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: FileKey,
    pub(super) path: String,
}

impl Place {
    pub(super) fn handle(&self) -> Handle {
        let mut bytes = Vec::with_capacity(1 + KEY_BYTES + self.path.len());
        bytes.push(LAYOUT);
        for part in self.key.parts() {
            bytes.extend_from_slice(&part.to_le_bytes());
        }
        bytes.extend_from_slice(self.path.as_bytes());
        Handle(ByteBuf::from(bytes))
    }

    /// Takes a handle apart; any bytes may come in.
    pub(super) fn of(function: &str, handle: &Handle) -> Result<Self, FileError> {
        check::handle(function, handle)?;
        let bad = || FileError::nfs(Status::BadHandle, format!("{function}: handle {}", short(handle)));
        let ([LAYOUT, key @ ..], path) = handle.0.split_at_checked(1 + KEY_BYTES).ok_or_else(bad)? else {
            return Err(bad());
        };
        let mut parts = key.as_chunks::<8>().0.iter().map(|part| u64::from_le_bytes(*part));
        let mut part = || parts.next().ok_or_else(bad);
        let key = FileKey { device: part()?, inode: part()?, born_ns: part()? };
        let path = std::str::from_utf8(path).map_err(|_| bad())?;
        if path.len() > PATH_BYTES_MAX {
            return Err(bad());
        }
        for component in path.split('/').filter(|_| !path.is_empty()) {
            check::name(function, component).map_err(|_| bad())?;
        }
        Ok(Self { key, path: path.to_owned() })
    }

    /// The path of `name` in this directory.
    pub(super) fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }
}

/// The first bytes of a handle, for messages.
fn short(handle: &Handle) -> String {
    handle.0.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_handle_comes_back_as_it_was(device: u64, inode: u64, born_ns: u64, path in "([a-z]{1,8}/){0,5}[a-z]{1,8}|") {
            let place = Place { key: FileKey { device, inode, born_ns }, path };
            prop_assert_eq!(Place::of("read", &place.handle()).unwrap(), place);
        }

        #[test]
        fn any_bytes_are_a_place_inside_or_a_bad_handle(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), ours: bool) {
            if let (true, Some(first)) = (ours, bytes.first_mut()) {
                *first = LAYOUT;
            }
            match Place::of("read", &Handle(ByteBuf::from(bytes))) {
                Ok(place) => prop_assert!(place.path.split('/').all(|part| part != ".." && part != ".")),
                Err(error) => prop_assert_eq!(error.name(), "NFS3ERR_BADHANDLE"),
            }
        }
    }

    #[test]
    fn a_handle_cannot_point_out() {
        let key = FileKey { device: 1, inode: 2, born_ns: 3 };
        for path in ["..", "a/../..", "/etc", "a//b", "."] {
            let handle = Place { key, path: path.to_owned() }.handle();
            assert_eq!(Place::of("read", &handle).unwrap_err().name(), "NFS3ERR_BADHANDLE", "{path}");
        }
    }
}
