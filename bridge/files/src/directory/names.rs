//! Names in directories: lookup, create, mkdir, remove, rename, readdir.

use std::os::fd::AsFd;
use std::sync::Arc;

use cap_std::fs::{DirBuilder, DirBuilderExt, MetadataExt, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::{Mode, OFlags};
use serde_bytes::ByteBuf;

use super::failure::failed;
use super::key::FileKey;
use super::tree::{OpenDir, Tree, entry, safe_flags};
use crate::check::{self, Target};
use crate::error::FileError;
use crate::status::Status;
use crate::{
    Cookie, CreateHow, CreateParams, DirEntry, Done, Entry, LookupParams, MkdirParams, ReaddirParams, ReaddirResult,
    RemoveParams, RenameParams,
};

const FILE_MODE_DEFAULT: u32 = 0o644;
const DIRECTORY_MODE_DEFAULT: u32 = 0o755;

impl Tree {
    pub(super) fn root(&self) -> Result<Entry, FileError> {
        let at = self.open_dir("root", None)?;
        let metadata = at.dir.dir_metadata().map_err(|error| failed("root".to_owned(), &error))?;
        Ok(entry(String::new(), &metadata))
    }

    pub(super) fn lookup(&self, params: &LookupParams) -> Result<Entry, FileError> {
        let target = Target::of("lookup", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        let at = self.walk("lookup", &target)?;
        let path = at.place.below(target.name);
        match at.dir.symlink_metadata(target.name) {
            Ok(metadata) => Ok(entry(path, &metadata)),
            Err(error) => Err(failed(format!("lookup of {path:?}"), &error)),
        }
    }

    pub(super) fn create(&self, params: &CreateParams) -> Result<Entry, FileError> {
        let target = Target::of("create", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        check::mode("create", params.mode)?;
        check::size("create", params.size.unwrap_or(0))?;
        let at = self.walk("create", &target)?;
        let path = at.place.below(target.name);
        let fail = |error: std::io::Error| failed(format!("create of {path:?}"), &error);
        // Only a regular file is used again; its type is checked first, because opening a device or a pipe can have effects.
        if let Ok(there) = at.dir.symlink_metadata(target.name)
            && (params.how == CreateHow::Guarded || !there.is_file())
        {
            return Err(FileError::nfs(Status::Exist, format!("create of {path:?}")));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(params.mode.unwrap_or(FILE_MODE_DEFAULT)).custom_flags(safe_flags());
        match params.how {
            CreateHow::Unchecked => options.create(true),
            CreateHow::Guarded => options.create_new(true),
        };
        let file = at.dir.open_with(target.name, &options).map_err(fail)?;
        if let Some(mode) = params.mode {
            file.set_permissions(Permissions::from_mode(mode)).map_err(fail)?;
        }
        if let Some(size) = params.size {
            file.set_len(size).map_err(fail)?;
        }
        let metadata = file.metadata().map_err(fail)?;
        self.keep_open(FileKey::of(&metadata), Arc::new(file), true);
        Ok(entry(path, &metadata))
    }

    pub(super) fn mkdir(&self, params: &MkdirParams) -> Result<Entry, FileError> {
        let target = Target::of("mkdir", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        check::mode("mkdir", params.mode)?;
        let at = self.walk("mkdir", &target)?;
        let path = at.place.below(target.name);
        let fail = |error: std::io::Error| failed(format!("mkdir of {path:?}"), &error);
        let mut builder = DirBuilder::new();
        builder.mode(params.mode.unwrap_or(DIRECTORY_MODE_DEFAULT));
        at.dir.create_dir_with(target.name, &builder).map_err(fail)?;
        if let Some(mode) = params.mode {
            at.dir.set_permissions(target.name, Permissions::from_mode(mode)).map_err(fail)?;
        }
        let metadata = at.dir.symlink_metadata(target.name).map_err(fail)?;
        Ok(entry(path, &metadata))
    }

    pub(super) fn remove(&self, params: &RemoveParams) -> Result<Done, FileError> {
        let target = Target::of("remove", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        let at = self.walk("remove", &target)?;
        let path = at.place.below(target.name);
        let fail = |error: std::io::Error| failed(format!("remove of {path:?}"), &error);
        let metadata = at.dir.symlink_metadata(target.name).map_err(fail)?;
        if metadata.is_dir() {
            return Err(FileError::nfs(Status::IsDir, format!("remove of {path:?}")));
        }
        at.dir.remove_file(target.name).map_err(fail)?;
        if metadata.nlink() <= 1 {
            self.forget(&FileKey::of(&metadata));
        }
        Ok(Done {})
    }

    pub(super) fn rename(&self, params: &RenameParams) -> Result<Done, FileError> {
        let from = Target::of("rename", params.from_dir.as_ref(), Some(&params.from_name), None)?;
        let to = Target::of("rename", params.to_dir.as_ref(), Some(&params.to_name), None)?;
        let (from_at, to_at) = (self.walk("rename", &from)?, self.walk("rename", &to)?);
        let (old, new) = (from_at.place.below(from.name), to_at.place.below(to.name));
        let fail = |error: std::io::Error| failed(format!("rename of {old:?} to {new:?}"), &error);
        let metadata = from_at.dir.symlink_metadata(from.name).map_err(fail)?;
        let replaced = to_at.dir.symlink_metadata(to.name).ok();
        if let Some(replaced) = &replaced
            && replaced.is_dir() != metadata.is_dir()
        {
            // NFSv3 has one status for both directions (RFC 1813, section 3.3.14); the system has two.
            return Err(FileError::nfs(Status::Exist, format!("rename of {old:?} to {new:?}")));
        }
        from_at.dir.rename(from.name, &to_at.dir, to.name).map_err(fail)?;
        if let Some(replaced) = replaced.filter(|replaced| replaced.nlink() <= 1) {
            self.forget(&FileKey::of(&replaced));
        }
        self.moved(FileKey::of(&metadata), new);
        Ok(Done {})
    }

    pub(super) fn readdir(&self, params: &ReaddirParams) -> Result<ReaddirResult, FileError> {
        let count = check::readdir_count(params.count)?;
        let from = params.cookie.as_ref().map(check::cookie::<8>).transpose()?.map(i64::from_le_bytes);
        let OpenDir { dir, place } = self.open_dir("readdir", params.dir.as_ref())?;
        let fail = |error: rustix::io::Errno| failed(format!("readdir of {:?}", place.path), &error.into());
        // cap-std opens directories by path only (O_PATH); listing needs one open for reading: "." is the same directory.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(dir.as_fd(), c".", flags, Mode::empty()).map_err(fail)?;
        let mut stream = rustix::fs::Dir::new(readable).map_err(fail)?;
        if let Some(from) = from {
            let bad = |_| FileError::nfs(Status::BadCookie, format!("readdir of {:?}", place.path));
            stream.seek(from).map_err(bad)?;
        }
        let mut entries = Vec::new();
        let mut next = None;
        while let Some(found) = stream.read() {
            let found = found.map_err(fail)?;
            if matches!(found.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() >= count as usize {
                return Ok(ReaddirResult { entries, next, eof: false });
            }
            next = Some(Cookie(ByteBuf::from(found.offset().to_le_bytes())));
            entries.push(DirEntry::of(found.file_name().to_bytes()));
        }
        Ok(ReaddirResult { entries, next: None, eof: true })
    }
}
