//! A connection that gives up on a reader who takes in next to nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// While data waits for it, a reader has to take at least this many bytes in the time that it is given.
const PROGRESS_BYTES_MIN: usize = 1 << 10;

/// A stream whose writes fail when its reader has stalled.
#[derive(Debug)]
pub struct Paced<S> {
    stream: S,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes taken since it stalled.
    taken: usize,
}

impl<S> Paced<S> {
    /// A stream whose reader may stall for `patience`.
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, stalled: None, taken: 0 }
    }

    fn judge(
        &mut self,
        written: Poll<io::Result<usize>>,
        offered: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.taken += bytes;
            if bytes == offered || self.taken >= PROGRESS_BYTES_MIN {
                self.stalled = None;
            }
        }
        if written.is_ready() {
            return written;
        }
        let patience = self.patience;
        let taken = &mut self.taken;
        let timer = self.stalled.get_or_insert_with(|| {
            *taken = 0;
            Box::pin(sleep(patience))
        });
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(written, bytes.len(), cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(written, parts.iter().map(|part| part.len()).sum(), cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_takes_nothing_is_given_up() {
        let (stream, mut reader) = duplex(16);
        let mut paced = Paced::new(stream, Duration::from_secs(30));
        let why = paced.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        // A reader that takes everything starts with fresh time, however long nothing is sent in between.
        let (stream, mut other) = duplex(16);
        let mut paced = Paced::new(stream, Duration::from_secs(30));
        let reading = tokio::spawn(async move {
            let mut bytes = [0; 40];
            other.read_exact(&mut bytes).await.unwrap();
            other
        });
        for _ in 0..2 {
            paced.write_all(&[0; 20]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(100)).await;
        }
        reading.await.unwrap();
        assert_eq!(reader.read(&mut [0; 16]).await.unwrap(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_only_sips_is_given_up() {
        let (stream, mut reader) = duplex(16);
        let sipping = tokio::spawn(async move {
            while reader.read(&mut [0; 1]).await.is_ok_and(|bytes| bytes > 0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut paced = Paced::new(stream, Duration::from_secs(30));
        let why = paced.write_all(&[0; 4 << 10]).await.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
        drop(paced);
        sipping.await.unwrap();
    }
}
