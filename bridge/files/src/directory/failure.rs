//! Maps the operating system's errors to those of NFSv3.

use std::io::{Error, ErrorKind};

use rustix::io::Errno;

use crate::error::FileError;
use crate::status::Status;

/// The file error for what the system answered; `what` says the function and the path.
pub(super) fn failed(what: String, error: &Error) -> FileError {
    let status = status(error);
    match status {
        // These statuses are broad: the system's own message says more.
        Status::Io | Status::Jukebox | Status::Inval => FileError::nfs(status, format!("{what} ({error})")),
        _ => FileError::nfs(status, what),
    }
}

fn status(error: &Error) -> Status {
    let Some(errno) = Errno::from_io_error(error) else {
        // The sandbox reports a path that would lead out of it without a number.
        return if error.kind() == ErrorKind::PermissionDenied { Status::Acces } else { Status::Io };
    };
    match errno {
        Errno::PERM => Status::Perm,
        Errno::NOENT => Status::NoEnt,
        Errno::NXIO => Status::NxIo,
        Errno::ACCESS => Status::Acces,
        Errno::EXIST => Status::Exist,
        Errno::XDEV => Status::XDev,
        Errno::NODEV => Status::NoDev,
        Errno::NOTDIR => Status::NotDir,
        Errno::ISDIR => Status::IsDir,
        Errno::INVAL | Errno::LOOP => Status::Inval,
        Errno::FBIG | Errno::OVERFLOW => Status::FBig,
        Errno::NOSPC => Status::NoSpc,
        Errno::ROFS => Status::RoFs,
        Errno::MLINK => Status::MLink,
        Errno::NAMETOOLONG => Status::NameTooLong,
        Errno::NOTEMPTY => Status::NotEmpty,
        Errno::DQUOT => Status::DQuot,
        Errno::STALE => Status::Stale,
        Errno::OPNOTSUPP => Status::NotSupp,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::BUSY | Errno::TXTBSY | Errno::AGAIN => Status::Jukebox,
        _ => Status::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_errors_keep_their_meaning() {
        let cases = [
            (Errno::NOENT, "NFS3ERR_NOENT"),
            (Errno::NOSPC, "NFS3ERR_NOSPC"),
            (Errno::ACCESS, "NFS3ERR_ACCES"),
            (Errno::DQUOT, "NFS3ERR_DQUOT"),
            (Errno::MFILE, "NFS3ERR_JUKEBOX"),
            (Errno::IO, "NFS3ERR_IO"),
        ];
        for (errno, name) in cases {
            assert_eq!(failed("read".to_owned(), &Error::from(errno)).name(), name);
        }
        assert_eq!(failed("read".to_owned(), &Error::from(ErrorKind::PermissionDenied)).name(), "NFS3ERR_ACCES");
    }
}
