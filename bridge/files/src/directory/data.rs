//! Bytes in and out of files: read, write, commit. All of it may wait for the disk.

use std::os::fd::AsFd;

use cap_std::fs::FileExt;
use rustix::io::Errno;
use serde_bytes::ByteBuf;

use super::failure::failed;
use super::tree::{Tree, attributes};
use crate::error::FileError;
use crate::{Attributes, CommitParams, CommitResult, ReadParams, ReadResult, Stable, WriteParams, WriteResult, check};

impl Tree {
    pub(super) fn read(&self, params: &ReadParams) -> Result<ReadResult, FileError> {
        check::read_count(params.count)?;
        let (file, metadata) = self.open_file("read", &params.handle, false)?;
        let left = metadata.len().saturating_sub(params.offset);
        let count = left.min(u64::from(params.count));
        let mut data = vec![0; usize::try_from(count).unwrap_or(0)];
        let mut filled = 0;
        while filled < data.len() {
            match file.read_at(&mut data[filled..], params.offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                Err(error) => return Err(failed(format!("read at byte {}", params.offset), &error)),
            }
        }
        // The file may have been truncated since its size was asked for.
        let eof = filled < data.len() || count == left;
        data.truncate(filled);
        Ok(ReadResult { data: ByteBuf::from(data), eof })
    }

    /// The same answer immediately, if the file is open and the bytes are in the page cache; `None` if it would have to wait.
    pub(super) fn read_without_waiting(&self, params: &ReadParams) -> Option<ReadResult> {
        let place = super::key::Place::of("read", &params.handle).ok()?;
        let (file, metadata) = self.cached(&place.key, false)?;
        let left = metadata.len().saturating_sub(params.offset);
        let count = left.min(u64::from(params.count));
        let mut data = vec![0; usize::try_from(count).ok()?];
        if !data.is_empty() {
            let mut buffers = [std::io::IoSliceMut::new(&mut data)];
            let flags = rustix::io::ReadWriteFlags::NOWAIT;
            let bytes = rustix::io::preadv2(file.as_fd(), &mut buffers, params.offset, flags).ok()?;
            if bytes < data.len() {
                return None;
            }
        }
        Some(ReadResult { data: ByteBuf::from(data), eof: count == left })
    }

    pub(super) fn write(&self, params: &WriteParams) -> Result<WriteResult, FileError> {
        self.write_between(params, |_| ()).map(|(done, _)| done)
    }

    /// A write that calls `before` with the file's size before anything is written; also returns the file's attributes afterwards.
    pub(super) fn write_between(
        &self,
        params: &WriteParams,
        before: impl FnOnce(u64),
    ) -> Result<(WriteResult, Attributes), FileError> {
        check::write_range(params.offset, params.data.len())?;
        let (file, metadata) = self.open_file("write", &params.handle, true)?;
        before(metadata.len());
        let mut written = 0;
        while written < params.data.len() {
            let at = params.offset + written as u64;
            match file.write_at(&params.data[written..], at) {
                Ok(bytes) if bytes > 0 => written += bytes,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                Ok(_) => return Err(failed(format!("write at byte {at}"), &Errno::IO.into())),
                Err(error) => {
                    let what = format!("write at byte {at}, after {written} of {} bytes", params.data.len());
                    return Err(failed(what, &error));
                }
            }
        }
        match params.stable {
            Stable::Unstable => Ok(()),
            Stable::DataSync => file.sync_data(),
            Stable::FileSync => file.sync_all(),
        }
        .map_err(|error| failed("write: making it safe".to_owned(), &error))?;
        let count = u32::try_from(written).unwrap_or(u32::MAX);
        let after = file.metadata().map_err(|error| failed("write: attributes".to_owned(), &error))?;
        Ok((WriteResult { count, committed: params.stable, verifier: self.verifier() }, attributes(&after)))
    }

    pub(super) fn commit(&self, params: &CommitParams) -> Result<CommitResult, FileError> {
        // The access mode does not matter: fsync makes the whole file durable, whoever wrote to it.
        let (file, _) = self.open_file("commit", &params.handle, false)?;
        file.sync_all().map_err(|error| failed("commit".to_owned(), &error))?;
        Ok(CommitResult { verifier: self.verifier() })
    }
}
