//! Between NFS's types on the wire and those of the file service.

use catena_files::{Attributes, Cookie, FileError, Handle, Kind, Stable, Status, Verifier, check};
use nfs3_client::nfs3_types::nfs3::{
    NFS3_FHSIZE, Nfs3Option, cookieverf3, diropargs3, fattr3, filename3, ftype3, nfs_fh3, nfstime3, sattr3, stable_how,
    writeverf3,
};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use serde_bytes::ByteBuf;

/// The handle for the wire.
pub(crate) fn to_fh(function: &str, handle: &Handle) -> Result<nfs_fh3, FileError> {
    check::handle(function, handle)?;
    if handle.0.len() > NFS3_FHSIZE {
        let what = format!("{function}: a handle of {} bytes; NFS handles have at most {NFS3_FHSIZE}", handle.0.len());
        return Err(FileError::nfs(Status::BadHandle, what));
    }
    Ok(nfs_fh3 { data: Opaque::owned(handle.0.to_vec()) })
}

/// The handle that the server gave.
pub(crate) fn from_fh(handle: nfs_fh3) -> Handle {
    Handle(ByteBuf::from(handle.data.into_owned()))
}

/// A name in a directory, for the wire.
pub(crate) fn at<'a>(dir: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: dir.clone(), name: filename3::from(name.as_bytes()) }
}

/// Attributes as the server gave them.
pub(crate) fn attributes(given: &fattr3) -> Attributes {
    Attributes {
        kind: match given.type_ {
            ftype3::NF3REG => Kind::File,
            ftype3::NF3DIR => Kind::Directory,
            ftype3::NF3LNK => Kind::Symlink,
            _ => Kind::Other,
        },
        size: given.size,
        used_bytes: given.used,
        mode: given.mode & 0o7777,
        links: given.nlink,
        uid: given.uid,
        gid: given.gid,
        accessed_at_ms: ms(given.atime),
        modified_at_ms: ms(given.mtime),
        changed_at_ms: ms(given.ctime),
    }
}

fn ms(time: nfstime3) -> u64 {
    u64::from(time.seconds) * 1000 + u64::from(time.nseconds / 1_000_000)
}

/// Attributes to set: only those that were given.
pub(crate) fn to_sattr(mode: Option<u32>, size: Option<u64>) -> sattr3 {
    let mode = mode.map_or(Nfs3Option::None, Nfs3Option::Some);
    let size = size.map_or(Nfs3Option::None, Nfs3Option::Some);
    sattr3 { mode, size, ..sattr3::default() }
}

/// How safe a write is to be, for the wire.
pub(crate) const fn to_stable(stable: Stable) -> stable_how {
    match stable {
        Stable::Unstable => stable_how::UNSTABLE,
        Stable::DataSync => stable_how::DATA_SYNC,
        Stable::FileSync => stable_how::FILE_SYNC,
    }
}

/// How safe a write is.
pub(crate) const fn from_stable(stable: stable_how) -> Stable {
    match stable {
        stable_how::UNSTABLE => Stable::Unstable,
        stable_how::DATA_SYNC => Stable::DataSync,
        stable_how::FILE_SYNC => Stable::FileSync,
    }
}

/// The server's verifier of a write or commit.
pub(crate) fn from_verifier(verifier: writeverf3) -> Verifier {
    Verifier(ByteBuf::from(verifier.0))
}

/// Where a listing continues: NFS's cookie and its verifier in one value.
pub(crate) fn to_cookie(cookie: u64, verifier: cookieverf3) -> Cookie {
    let mut bytes = cookie.to_be_bytes().to_vec();
    bytes.extend_from_slice(&verifier.0);
    Cookie(ByteBuf::from(bytes))
}

/// The two halves of a cookie; zeros start at the beginning of the directory.
pub(crate) fn from_cookie(cookie: Option<&Cookie>) -> Result<(u64, cookieverf3), FileError> {
    let bytes = cookie.map(check::cookie::<16>).transpose()?.unwrap_or_default();
    let (mut position, mut verifier) = ([0; 8], [0; 8]);
    position.copy_from_slice(&bytes[..8]);
    verifier.copy_from_slice(&bytes[8..]);
    Ok((u64::from_be_bytes(position), cookieverf3(verifier)))
}
