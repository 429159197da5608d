//! The body of a file, for whoever reads it: frame by frame, the next one read while one is sent.

use std::{
    io::{self, IoSliceMut},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use catena::Segment;
use hyper::body::{Body, Frame, SizeHint};
use rustix::{
    buffer::spare_capacity,
    io::{Errno, ReadWriteFlags, pread, preadv2},
};
use tokio::task::JoinHandle;

use super::cache::Content;

/// Bytes of a frame out of a segment.
const FRAME_BYTES: u64 = 256 << 10;

/// Bytes that are read without another thread, if they are in the page cache: copying more takes longer than waking a thread.
const AT_ONCE_BYTES_MAX: u64 = 256 << 10;

/// What is sent of a file.
#[derive(Debug)]
pub enum FileBody {
    /// Nothing.
    Empty,
    /// These bytes.
    Here(Bytes),
    /// Out of a segment: from this offset on, so many bytes.
    Kept(Segment, u64, u64),
    /// From the disk.
    Disk(Reading),
}

/// A file that is being read.
#[derive(Debug)]
pub struct Reading {
    file: Arc<std::fs::File>,
    step: u64,
    /// Where to read next, and how many bytes have not been given.
    at: u64,
    left: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Reading {
    /// The next frame, if the system has it in memory.
    fn at_once(&mut self) -> Option<Bytes> {
        let count = self.step.min(self.left);
        if count == 0 || count > AT_ONCE_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; count as usize];
        let read = preadv2(&*self.file, &mut [IoSliceMut::new(&mut bytes)], self.at, ReadWriteFlags::NOWAIT).ok()?;
        (read == bytes.len()).then(|| bytes.into())
    }

    /// Begins to read the next frame in a thread that may wait for a disk.
    fn begin(&mut self) {
        let (file, at, count) = (Arc::clone(&self.file), self.at, self.step.min(self.left));
        if count > 0 {
            self.reading = Some(tokio::task::spawn_blocking(move || read_at(&file, at, count)));
        }
    }

    /// Takes what was read.
    fn took(&mut self, bytes: &Bytes) {
        self.at += bytes.len() as u64;
        self.left -= bytes.len() as u64;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.reading.is_none() {
            if let Some(bytes) = self.at_once() {
                self.took(&bytes);
                return Poll::Ready(Some(Ok(bytes)));
            }
            self.begin();
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(cx)).unwrap_or_else(|why| Err(io::Error::other(why)));
        self.reading = None;
        match &read {
            Ok(bytes) => {
                self.took(bytes);
                // The next frame is read while this one is sent.
                self.begin();
            }
            Err(_) => self.left = 0,
        }
        Poll::Ready(Some(read))
    }
}

/// Reads so many bytes of a file, into memory that is not zeroed first.
fn read_at(file: &std::fs::File, at: u64, count: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(usize::try_from(count).unwrap_or_default());
    while (bytes.len() as u64) < count {
        let from = at + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), from) {
            // The file has shrunk: the body ends early with an error, since its length was announced.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    // There may be more room than was asked for.
    bytes.truncate(count as usize);
    Ok(bytes.into())
}

impl FileBody {
    pub(super) fn of(content: Content, offset: u64, bytes: u64) -> Self {
        match content {
            Content::Segment(segment) => Self::Kept(segment, offset, bytes),
            // Checked before against the very length of these bytes.
            Content::Memory(whole) => Self::Here(whole.slice(offset as usize..(offset + bytes) as usize)),
            Content::Disk(file, step) => {
                Self::Disk(Reading { file, step: step as u64, at: offset, left: bytes, reading: None })
            }
        }
    }

    const fn left(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Here(bytes) => bytes.len() as u64,
            Self::Kept(_, _, left) => *left,
            Self::Disk(reading) => reading.left,
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = match &mut *self {
            Self::Empty => None,
            Self::Here(bytes) => {
                let whole = std::mem::take(bytes);
                (!whole.is_empty()).then_some(Ok(whole))
            }
            Self::Kept(_, _, 0) => None,
            Self::Kept(segment, offset, left) => {
                let mut out = vec![0; (*left).min(FRAME_BYTES) as usize];
                let read = segment.read(*offset, &mut out).map_err(|why| io::Error::other(why.message));
                (*offset, *left) = (*offset + out.len() as u64, *left - out.len() as u64);
                Some(read.map(|()| out.into()))
            }
            Self::Disk(reading) => ready!(reading.poll(cx)),
        };
        Poll::Ready(frame.map(|read| read.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
