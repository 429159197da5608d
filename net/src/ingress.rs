//! The reading side: a link's reader task, which also tells the handler everything.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout};

use crate::assemble::{Assembler, Outcome};
use crate::config::{EndpointConfig, Limits};
use crate::frame::{HEADER_BYTES, Header};
use crate::hello::{Hello, decode_hello};
use crate::measure::Gauge;
use crate::{FrameError, Handler, Incoming, Link, LinkError};

/// Room for one read.
const READ_BYTES: usize = 64 * 1024;
/// Read on into what is left while it is at least this much.
const READ_BYTES_MIN: usize = 16 * 1024;

/// The receiving half of a link.
pub(crate) struct Ingress {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    peer: String,
}

impl Ingress {
    pub(crate) fn new(reader: Box<dyn AsyncRead + Send + Unpin>, peer: String) -> Self {
        Self { reader, buffer: BytesMut::with_capacity(READ_BYTES), peer }
    }

    /// Reads the peer's hello, within the configured time.
    pub(crate) async fn read_hello(&mut self, config: &EndpointConfig) -> Result<Hello, LinkError> {
        let hello_timeout_ms = config.hello_timeout_ms;
        let late = Err(LinkError::NoHello { peer: self.peer.clone(), hello_timeout_ms });
        let reading = async {
            loop {
                let hello = decode_hello(&mut self.buffer, config.hello_bytes_max);
                if let Some(hello) = hello.map_err(|what| LinkError::misbehaved(&self.peer, what))? {
                    return Ok(hello);
                }
                self.read(false).await?;
            }
        };
        timeout(Duration::from_millis(hello_timeout_ms), reading).await.unwrap_or(late)
    }

    /// Reads once; how many bytes came.
    async fn read(&mut self, mid_message: bool) -> Result<usize, LinkError> {
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_MIN {
            self.buffer.reserve(READ_BYTES);
        }
        match self.reader.read_buf(&mut self.buffer).await {
            Ok(0) => {
                let mid_message = mid_message || !self.buffer.is_empty();
                Err(LinkError::PeerClosed { peer: self.peer.clone(), mid_message })
            }
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(LinkError::io(&self.peer, &error)),
        }
    }

    /// Reads and delivers until the link breaks. Returns why.
    pub(crate) async fn deliver(&mut self, link: &Arc<Link>, handler: &dyn Handler) -> LinkError {
        let limits = link.config.limits;
        let (mut assembler, mut gauge) = (Assembler::new(limits), Gauge::default());
        loop {
            if let Err(what) = self.drain(&limits, &mut assembler, &mut gauge, link, handler) {
                return LinkError::misbehaved(&self.peer, what);
            }
            if gauge.is_on() {
                gauge.returns(Instant::now());
            }
            let bytes = match self.read(assembler.is_mid_message()).await {
                Ok(bytes) => bytes,
                Err(why) => return why,
            };
            link.counters.bytes_received.fetch_add(bytes as u64, Relaxed);
            if gauge.is_on() {
                // A read that left room has taken all that there was.
                gauge.came(bytes, self.buffer.len() < self.buffer.capacity(), Instant::now());
            }
        }
    }

    /// Delivers all that has come whole.
    fn drain(
        &mut self,
        limits: &Limits,
        assembler: &mut Assembler,
        gauge: &mut Gauge,
        link: &Arc<Link>,
        handler: &dyn Handler,
    ) -> Result<(), FrameError> {
        // The first ping is answered at once. Of more in one go only the last is: a flood of them costs two writes for each read.
        let (mut pinged, mut last_ping) = (false, None);
        while let Some(header) = Header::decode(&self.buffer, limits)? {
            let Some(payload) = self.buffer.get(HEADER_BYTES..header.frame_bytes()) else { break };
            let outcome = assembler.accept_in_place(&header, payload)?;
            self.buffer.advance(header.frame_bytes());
            if let Some(bytes_per_s) = gauge.follow(assembler.long_under_way(), Instant::now) {
                link.rate_measured(bytes_per_s);
            }
            match outcome {
                Outcome::Nothing => {}
                Outcome::Ping(nonce) if pinged => last_ping = Some(nonce),
                Outcome::Ping(nonce) => {
                    pinged = true;
                    link.answer_ping(nonce);
                }
                Outcome::Pong(nonce) => link.pong_came(nonce)?,
                Outcome::Deliver(incoming) => {
                    if !matches!(incoming, Incoming::Tail { .. }) {
                        link.counters.messages_received.fetch_add(1, Relaxed);
                    }
                    handler.on_message(link, incoming);
                }
            }
        }
        if let Some(nonce) = last_ping {
            link.answer_ping(nonce);
        }
        Ok(())
    }
}
