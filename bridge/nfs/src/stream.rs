//! One TCP connection, as the NFS client library reads and writes it.
//!
//! The library's own adapter waits for ever when the server closes the connection, believes any length that the server
//! announces, and cannot take an answer in several fragments (RFC 5531, section 11). This one fails, refuses, and joins.

use std::io::{Error, ErrorKind, Result};

use nfs3_client::io::{AsyncRead, AsyncWrite};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes in one answer: the largest read or directory page, and room for what surrounds it.
pub(crate) const REPLY_BYTES_MAX: usize = catena_files::limits::READ_BYTES_MAX as usize + (64 << 10);
/// Fragments in one answer.
const FRAGMENTS_MAX: usize = 1024;
const LAST_FRAGMENT: u32 = 1 << 31;
/// Bytes of an answer up to and with the length of its verifier: xid, type, status, flavor, length (RFC 5531, section 9).
const HEAD_BYTES: usize = 20;
/// Bytes in a verifier (RFC 5531, section 8.2).
const VERIFIER_BYTES_MAX: u32 = 400;

/// The part of the current answer that the library has not yet read.
#[derive(Debug)]
enum Rest {
    /// Between two answers.
    Nothing,
    /// This many bytes, still in the connection: an answer in one fragment is not copied.
    InConnection(usize),
    /// Already here: the header, or an answer that came in several fragments.
    Here { bytes: Vec<u8>, taken: usize, then_in_connection: usize },
}

/// A connection to the server, and how far its current answer has been read.
#[derive(Debug)]
pub(crate) struct RecordStream {
    tcp: TcpStream,
    rest: Rest,
}

impl RecordStream {
    pub(crate) fn new(tcp: TcpStream) -> Self {
        Self { tcp, rest: Rest::Nothing }
    }

    /// Whether an idle connection can still be used: no data is expected on it, so anything to read is an end or an error. The system is asked, because tokio
    /// may not have noticed yet; a call on a dead connection would end with its outcome unknown.
    pub(crate) fn is_alive(&self) -> bool {
        let mut wanted = [PollFd::new(&self.tcp, PollFlags::IN | PollFlags::RDHUP)];
        matches!(self.rest, Rest::Nothing) && matches!(poll(&mut wanted, Some(&Timespec::default())), Ok(0))
    }

    async fn fragment_header(&mut self) -> Result<(usize, bool)> {
        let header = self.tcp.read_u32().await?;
        Ok(((header & !LAST_FRAGMENT) as usize, header & LAST_FRAGMENT != 0))
    }

    /// Reads the header of the next answer, and all of it if it comes in several fragments.
    async fn begin(&mut self) -> Result<()> {
        let (length, last) = self.fragment_header().await?;
        check_length(length)?;
        let mut bytes = vec![0; 4];
        let mut then_in_connection = length;
        if !last {
            let mut fragments = 1;
            let (mut length, mut last) = (length, false);
            loop {
                let at = bytes.len();
                check_length(at - 4 + length)?;
                bytes.resize(at + length, 0);
                self.tcp.read_exact(&mut bytes[at..]).await?;
                if last {
                    break;
                }
                fragments += 1;
                if fragments > FRAGMENTS_MAX {
                    let why = format!("the server's answer has over fragments_max = {FRAGMENTS_MAX}");
                    return Err(Error::new(ErrorKind::InvalidData, why));
                }
                (length, last) = self.fragment_header().await?;
            }
            then_in_connection = 0;
        }
        let total = if last { length } else { bytes.len() - 4 };
        if then_in_connection > 0 {
            let head = then_in_connection.min(HEAD_BYTES);
            bytes.resize(4 + head, 0);
            self.tcp.read_exact(&mut bytes[4..]).await?;
            then_in_connection -= head;
        }
        check_verifier(&bytes[4..])?;
        let header = u32::try_from(total).unwrap_or(u32::MAX) | LAST_FRAGMENT;
        bytes[..4].copy_from_slice(&header.to_be_bytes());
        self.rest = Rest::Here { bytes, taken: 0, then_in_connection };
        Ok(())
    }
}

fn check_length(length: usize) -> Result<()> {
    if length > REPLY_BYTES_MAX {
        let why = format!("the server announces an answer of {length} bytes, over reply_bytes_max = {REPLY_BYTES_MAX}");
        return Err(Error::new(ErrorKind::InvalidData, why));
    }
    Ok(())
}

/// Refuses a verifier longer than allowed: the library would allocate whatever length is announced.
fn check_verifier(answer: &[u8]) -> Result<()> {
    let word = |number: usize| -> Option<u32> {
        Some(u32::from_be_bytes(answer.get(number * 4..number * 4 + 4)?.try_into().ok()?))
    };
    match (word(2), word(4)) {
        (Some(0), Some(length)) if length > VERIFIER_BYTES_MAX => {
            let why = format!("the server announces a verifier of {length} bytes, over {VERIFIER_BYTES_MAX}");
            Err(Error::new(ErrorKind::InvalidData, why))
        }
        _ => Ok(()),
    }
}

impl AsyncRead for RecordStream {
    async fn async_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if matches!(self.rest, Rest::Nothing) {
            self.begin().await?;
        }
        match &mut self.rest {
            Rest::Nothing => Err(ErrorKind::UnexpectedEof.into()),
            Rest::InConnection(left) => {
                let wanted = buffer.len().min(*left);
                let count = self.tcp.read(&mut buffer[..wanted]).await?;
                if count == 0 {
                    return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                *left -= count;
                if *left == 0 {
                    self.rest = Rest::Nothing;
                }
                Ok(count)
            }
            Rest::Here { bytes, taken, then_in_connection } => {
                let count = buffer.len().min(bytes.len() - *taken);
                buffer[..count].copy_from_slice(&bytes[*taken..*taken + count]);
                *taken += count;
                if *taken == bytes.len() {
                    self.rest = match *then_in_connection {
                        0 => Rest::Nothing,
                        left => Rest::InConnection(left),
                    };
                }
                Ok(count)
            }
        }
    }
}

impl AsyncWrite for RecordStream {
    async fn async_write(&mut self, buffer: &[u8]) -> Result<usize> {
        match self.tcp.write(buffer).await? {
            0 if !buffer.is_empty() => Err(ErrorKind::WriteZero.into()),
            count => Ok(count),
        }
    }
}

/// A connection lent to the library for one call, since each call has its own credentials.
pub(crate) struct Lent<'a>(pub(crate) &'a mut RecordStream);

impl AsyncRead for Lent<'_> {
    async fn async_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.0.async_read(buffer).await
    }
}

impl AsyncWrite for Lent<'_> {
    async fn async_write(&mut self, buffer: &[u8]) -> Result<usize> {
        self.0.async_write(buffer).await
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
