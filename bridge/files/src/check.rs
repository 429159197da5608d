//! Checks of what callers send, shared by both implementations, so that they refuse the same things in the same words.

use crate::error::FileError;
use crate::limits::{
    COOKIE_BYTES_MAX, HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX, READ_BYTES_MAX,
    READDIR_ENTRIES_DEFAULT, READDIR_ENTRIES_MAX, WRITE_BYTES_MAX,
};
use crate::status::Status;
use crate::types::{Cookie, Handle};

/// Where a call points: a directory, the directories to go through below it, and the last name.
#[derive(Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The directory to begin at; the root if absent.
    pub dir: Option<&'a Handle>,
    /// Directories to go through, in order.
    pub parents: Vec<&'a str>,
    /// The last component.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// Splits `name` or `path`, of which exactly one must be given, into checked components.
    ///
    /// # Errors
    /// `NFS3ERR_INVAL` for neither, both, an absolute path, `.`, `..`, an empty component, `/` in a name, or NUL;
    /// `NFS3ERR_NAMETOOLONG`; `NFS3ERR_BADHANDLE` for a handle that is too long.
    pub fn of(
        function: &str,
        dir: Option<&'a Handle>,
        name: Option<&'a str>,
        path: Option<&'a str>,
    ) -> Result<Self, FileError> {
        if let Some(dir) = dir {
            self::handle(function, dir)?;
        }
        let (mut parents, name) = match (name, path) {
            (Some(name), None) => (Vec::new(), name),
            (None, Some(path)) => split(function, path)?,
            (None, None) => return Err(invalid(function, "neither name nor path is given: give one")),
            (Some(_), Some(_)) => return Err(invalid(function, "both name and path are given: give one")),
        };
        for parent in &mut parents {
            self::name(function, parent)?;
        }
        self::name(function, name)?;
        Ok(Self { dir, parents, name })
    }

    /// The components as one path, for messages.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for parent in &self.parents {
            path.push_str(parent);
            path.push('/');
        }
        path.push_str(self.name);
        path
    }
}

fn invalid(function: &str, why: &str) -> FileError {
    FileError::nfs(Status::Inval, format!("{function}: {why}"))
}

fn split<'a>(function: &str, path: &'a str) -> Result<(Vec<&'a str>, &'a str), FileError> {
    if path.len() > PATH_BYTES_MAX {
        let what = format!("{function}: a path of {} bytes is over path_bytes_max = {PATH_BYTES_MAX}", path.len());
        return Err(FileError::nfs(Status::NameTooLong, what));
    }
    if path.starts_with('/') {
        return Err(invalid(function, &format!("{path:?} is absolute: paths begin at the root, without a slash")));
    }
    let mut components: Vec<&str> = path.split('/').collect();
    if components.len() > PATH_DEPTH_MAX {
        let what =
            format!("{function}: a path of {} components is over path_depth_max = {PATH_DEPTH_MAX}", components.len());
        return Err(FileError::nfs(Status::NameTooLong, what));
    }
    let name = components.pop().unwrap_or_default();
    Ok((components, name))
}

/// Checks one component of a path.
///
/// # Errors
/// `NFS3ERR_INVAL` if it is empty, `.`, `..`, or has `/` or NUL in it; `NFS3ERR_NAMETOOLONG`.
pub fn name(function: &str, name: &str) -> Result<(), FileError> {
    if name.len() > NAME_BYTES_MAX {
        let what = format!("{function}: a name of {} bytes is over name_bytes_max = {NAME_BYTES_MAX}", name.len());
        return Err(FileError::nfs(Status::NameTooLong, what));
    }
    let why = match name {
        "" => "is empty",
        "." | ".." => "is not a name here: begin at the root, or at a directory's handle",
        _ if name.contains('/') => "has a slash in it: give it as path, not as name",
        _ if name.contains('\0') => "has a NUL in it",
        _ => return Ok(()),
    };
    Err(invalid(function, &format!("the name {name:?} {why}")))
}

/// Checks a handle's length.
///
/// # Errors
/// `NFS3ERR_BADHANDLE`.
pub fn handle(function: &str, handle: &Handle) -> Result<(), FileError> {
    if handle.0.is_empty() || handle.0.len() > HANDLE_BYTES_MAX {
        let what = format!("{function}: a handle of {} bytes; handles have 1 to {HANDLE_BYTES_MAX}", handle.0.len());
        return Err(FileError::nfs(Status::BadHandle, what));
    }
    Ok(())
}

/// Checks how many bytes a read asks for.
///
/// # Errors
/// [`FileError::Limit`].
pub fn read_count(count: u32) -> Result<(), FileError> {
    within("read: count", "read_bytes_max", READ_BYTES_MAX, u64::from(count))
}

/// Checks how many bytes a write carries and where they end.
///
/// # Errors
/// [`FileError::Limit`]; `NFS3ERR_FBIG` if the end is past what a file offset can say.
pub fn write_range(offset: u64, bytes: usize) -> Result<(), FileError> {
    within("write: data", "write_bytes_max", WRITE_BYTES_MAX, bytes as u64)?;
    size("write", offset.saturating_add(bytes as u64))
}

/// Checks a file size or end.
///
/// # Errors
/// `NFS3ERR_FBIG` if it is past 2^63 - 1, the largest that a file offset can say.
pub fn size(function: &str, end: u64) -> Result<(), FileError> {
    if i64::try_from(end).is_err() {
        return Err(FileError::nfs(Status::FBig, format!("{function}: the file would end at byte {end}")));
    }
    Ok(())
}

/// Checks permission bits.
///
/// # Errors
/// `NFS3ERR_INVAL` if there are more than read, write and execute.
pub fn mode(function: &str, mode: Option<u32>) -> Result<(), FileError> {
    match mode {
        Some(mode) if mode > 0o777 => Err(invalid(function, &format!("mode {mode:#o} is over 0o777"))),
        _ => Ok(()),
    }
}

/// Checks how many entries a readdir asks for, and gives the number.
///
/// # Errors
/// [`FileError::Limit`]; `NFS3ERR_TOOSMALL` for none.
pub fn readdir_count(count: Option<u32>) -> Result<u32, FileError> {
    let count = count.unwrap_or(READDIR_ENTRIES_DEFAULT);
    if count == 0 {
        return Err(FileError::nfs(Status::TooSmall, "readdir: count is 0"));
    }
    within("readdir: count", "readdir_entries_max", READDIR_ENTRIES_MAX, u64::from(count))?;
    Ok(count)
}

/// Checks a cookie's length, which is the implementation's own.
///
/// # Errors
/// `NFS3ERR_BAD_COOKIE`.
pub fn cookie<const BYTES: usize>(cookie: &Cookie) -> Result<[u8; BYTES], FileError> {
    const { assert!(BYTES <= COOKIE_BYTES_MAX) };
    <[u8; BYTES]>::try_from(cookie.0.as_slice()).map_err(|_| {
        FileError::nfs(Status::BadCookie, format!("readdir: a cookie of {} bytes, not {BYTES}", cookie.0.len()))
    })
}

fn within(what: &str, limit: &'static str, max: u32, asked: u64) -> Result<(), FileError> {
    if asked > u64::from(max) {
        return Err(FileError::Limit { what: what.to_owned(), limit, max: u64::from(max), asked });
    }
    Ok(())
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
