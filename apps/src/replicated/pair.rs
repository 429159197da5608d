//! A handle of the replicated service: what the primary and the backup each call the same file.

use catena_files::{FileError, Handle, Status};
use serde_bytes::ByteBuf;

/// The first byte of every such handle: those of other services are told from it at once.
const MARK: u8 = b'R';

/// Where a file is at both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Its handle at the primary.
    pub(super) primary: Handle,
    /// That at the backup; none for what was only looked up, since looking up asks the primary alone.
    pub(super) backup: Option<Handle>,
    /// From the root, as it was found or made; empty for the root itself.
    pub(super) path: String,
}

impl Pair {
    /// Mark, two lengths of two bytes each, primary's handle, backup's handle, path. `replicate.ts` packs alike.
    pub(super) fn pack(&self) -> Result<Handle, FileError> {
        let (primary, backup) = (&self.primary.0, self.backup.as_ref().map_or(&[][..], |handle| &handle.0[..]));
        let long = |_| FileError::nfs(Status::BadHandle, "a handle of more than 65,535 bytes");
        let mut packed = vec![MARK];
        packed.extend(u16::try_from(primary.len()).map_err(long)?.to_be_bytes());
        packed.extend(u16::try_from(backup.len()).map_err(long)?.to_be_bytes());
        packed.extend_from_slice(primary);
        packed.extend_from_slice(backup);
        packed.extend_from_slice(self.path.as_bytes());
        Ok(Handle(ByteBuf::from(packed)))
    }

    /// The two behind a handle that this service gave.
    pub(super) fn unpack(handle: &Handle) -> Result<Self, FileError> {
        let read = || {
            let bytes = handle.0.strip_prefix(&[MARK])?;
            let (lengths, rest) = bytes.split_first_chunk::<4>()?;
            let [a, b, c, d] = *lengths;
            let (primary, rest) = rest.split_at_checked(u16::from_be_bytes([a, b]).into())?;
            let (backup, path) = rest.split_at_checked(u16::from_be_bytes([c, d]).into())?;
            let path = std::str::from_utf8(path).ok()?.to_owned();
            let handle = |bytes: &[u8]| Handle(ByteBuf::from(bytes));
            Some(Self { primary: handle(primary), backup: (!backup.is_empty()).then(|| handle(backup)), path })
        };
        read().ok_or_else(|| FileError::nfs(Status::BadHandle, "a handle that the replicated service did not give"))
    }

    /// The path of what has this name, or is at this path, below it.
    pub(super) fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { [&self.path, "/", name].concat() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_pair_comes_back_whole_and_nothing_else_is_one() {
        let handle = |bytes: &[u8]| Handle(ByteBuf::from(bytes));
        for backup in [None, Some(handle(&[7; 300]))] {
            let pair = Pair { primary: handle(b"first"), backup, path: "a/ü".into() };
            let packed = pair.pack().unwrap();
            assert_eq!(Pair::unpack(&packed).unwrap(), pair);
            for end in 0..10 {
                assert_eq!(Pair::unpack(&handle(&packed.0[..end])).unwrap_err().name(), "NFS3ERR_BADHANDLE", "{end}");
            }
        }
        assert!(Pair::unpack(&handle(b"another service's")).is_err());
    }
}
