//! A client of an HTTP server on sockets that does next to nothing itself: one connection that is kept, and memory that is used again.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::Failure;

/// Bytes of a head, at most.
const HEAD_BYTES_MAX: usize = 8 << 10;

pub(super) struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, head: vec![0; HEAD_BYTES_MAX] })
    }

    /// Fetches what fills `out` exactly.
    pub(super) async fn fetch(&mut self, target: &str, out: &mut [u8]) -> Result<(), Failure> {
        self.stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await?;
        let mut came = 0;
        let body = loop {
            let count = self.stream.read(&mut self.head[came..]).await?;
            came += count;
            if let Some(end) = self.head[..came].windows(4).position(|end| end == b"\r\n\r\n") {
                break end + 4;
            }
            if count == 0 {
                return Err("the head does not end".into());
            }
        };
        if !self.head.starts_with(b"HTTP/1.1 200") {
            return Err(format!("{target}: {}", String::from_utf8_lossy(&self.head[..body])).into());
        }
        let early = &self.head[body..came];
        out.get_mut(..early.len()).ok_or("there is more than the file")?.copy_from_slice(early);
        self.stream.read_exact(&mut out[early.len()..]).await?;
        Ok(())
    }
}
