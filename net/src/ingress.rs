//! The reading side: a link's reader task, which also calls the handler.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant as Clock};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, timeout};

use crate::assemble::{Assembler, NotTaken, Outcome};
use crate::awake::Watch;
use crate::config::EndpointConfig;
use crate::gather::Gathered;
use crate::hello::{Hello, decode_hello};
use crate::measure::Gauge;
use crate::memory::{Lease, OverBudget};
use crate::{Frame, FrameError, Handler, Incoming, Link, LinkError, Message};

/// Size of the buffer for one read.
const READ_BYTES: usize = 64 * 1024;
/// While at least this much of the buffer is left, it is used for another read.
const READ_BYTES_MIN: usize = 16 * 1024;
/// Frames handled before other tasks get their turn.
const TURN_FRAMES_MAX: u32 = 64;
/// How long a turn may take: it ends with the frame that reaches this limit or the other.
const TURN_MAX: Duration = Duration::from_millis(1);
/// How long a peer that lets its answers pile up has to wait between two turns, and between two reads.
const SLOW_PAUSE: Duration = Duration::from_millis(10);
/// A turn ends when answers to such a peer have grown by this many bytes.
const SLOW_ANSWER_BYTES: u64 = 64 * 1024;
/// How often to ask whether the handler has caught up.
const BEHIND_PAUSE: Duration = Duration::from_millis(1);
/// How often to ask for memory again.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

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

    /// Reads once; returns how many bytes came.
    async fn read(&mut self, mid_message: bool) -> Result<usize, LinkError> {
        // When everything in the buffer was taken, starts again at its beginning, which is in the core's cache.
        let _ = self.buffer.is_empty() && self.buffer.try_reclaim(READ_BYTES);
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
    pub(crate) async fn deliver(mut self, link: &Arc<Link>, handler: &dyn Handler) -> LinkError {
        let assembler = Assembler::new(link.config.limits, link.memory.clone());
        let (gauge, watch) = (Gauge::default(), Watch::new());
        let mut receiver = Receiver { link, handler, assembler, gathered: Gathered::default(), gauge, watch };
        loop {
            if let Err(why) = receiver.drain(&mut self.buffer).await {
                return why;
            }
            receiver.returns();
            let bytes = match self.read(receiver.assembler.is_mid_message()).await {
                Ok(bytes) => bytes,
                Err(why) => return why,
            };
            if let Err(why) = receiver.awake() {
                return why;
            }
            link.counters.bytes_received.fetch_add(bytes as u64, Relaxed);
            // A read that left room in the buffer has taken all that there was.
            receiver.came(bytes, self.buffer.len() < self.buffer.capacity());
        }
    }
}

/// What handles the bytes of one link.
struct Receiver<'a> {
    link: &'a Arc<Link>,
    handler: &'a dyn Handler,
    assembler: Assembler,
    /// Messages sent while others were handed over, and not written yet.
    gathered: Gathered,
    gauge: Gauge,
    watch: Watch,
}

/// A charge, and the turn to go beyond the limit, if it does.
type Charge<'a> = (Lease, Option<MutexGuard<'a, ()>>);

impl<'a> Receiver<'a> {
    /// Delivers everything that has come whole, a turn at a time.
    async fn drain(&mut self, buffer: &mut BytesMut) -> Result<(), LinkError> {
        let link = self.link;
        // The first ping is answered at once; of further ones in the same go only the last is: a flood of pings costs two writes for each read.
        let (mut pinged, mut last_ping) = (false, None);
        let (mut frames, mut began, mut queued_bytes) = (0, Clock::now(), 0);
        while let Some(frame) = Frame::decode(buffer, &link.config.limits).map_err(|what| self.misbehaved(what))? {
            let outcome = self.accept(&frame).await?;
            if let Some(bytes_per_s) = self.gauge.follow(self.assembler.long_under_way(), Instant::now) {
                link.rate_measured(bytes_per_s);
            }
            match outcome {
                Outcome::Nothing => {}
                Outcome::Ping(nonce) if pinged => last_ping = Some(nonce),
                Outcome::Ping(nonce) => {
                    pinged = true;
                    link.answer_ping(nonce);
                }
                Outcome::Pong(nonce) => link.pong_came(nonce).map_err(|what| self.misbehaved(what))?,
                Outcome::Deliver(incoming) => self.tell(&frame, incoming, buffer.is_empty()).await?,
            }
            frames += 1;
            if frames >= TURN_FRAMES_MAX || began.elapsed() >= TURN_MAX || self.has_answered_much(&mut queued_bytes) {
                self.let_others().await?;
                (frames, began) = (0, Clock::now());
            }
        }
        if let Some(nonce) = last_ping {
            link.answer_ping(nonce);
        }
        self.gathered.write();
        if link.overflows.load(Relaxed) || self.handler.is_behind() { self.let_others().await } else { Ok(()) }
    }

    /// Notes how much time has passed.
    ///
    /// # Errors
    /// This node was stopped, or its host slept. No wait in this task takes that long: a live peer sends a pong much more often.
    fn awake(&mut self) -> Result<(), LinkError> {
        let stopped_ms = u64::try_from(self.watch.look().as_millis()).unwrap_or(u64::MAX);
        if stopped_ms > self.link.config.silence_ms_max() {
            return Err(LinkError::Slept { peer: self.link.peer.clone(), stopped_ms });
        }
        Ok(())
    }

    /// Gives a frame to the assembler, as soon as there is memory for it.
    async fn accept(&mut self, frame: &Frame) -> Result<Outcome, LinkError> {
        let counters = &self.link.counters;
        if let Frame::Begin { data, .. } | Frame::More { data, .. } = frame {
            counters.fragment_bytes.fetch_add(data.len() as u64, Relaxed);
        }
        let mut since = None;
        loop {
            match self.assembler.accept(frame) {
                Ok(outcome) => {
                    if !self.assembler.is_mid_message() {
                        counters.was_whole.store(true, Relaxed);
                    }
                    return Ok(outcome);
                }
                Err(NotTaken::Wrong(what)) => return Err(self.misbehaved(what)),
                Err(NotTaken::NoMemory(why)) => {
                    self.wait_for_memory(*since.get_or_insert_with(Instant::now), why).await?;
                }
            }
        }
    }

    /// Gives a message to the handler, with a charge for what the handler makes of it. The message stays charged until the handler has it.
    async fn tell(&mut self, frame: &Frame, incoming: Incoming, is_last: bool) -> Result<(), LinkError> {
        if !matches!(incoming, Incoming::Tail { .. }) {
            self.link.counters.messages_received.fetch_add(1, Relaxed);
        }
        let charge = self.assembler.take_charge();
        let _charge = match &incoming {
            // Not charged: a message in one frame is small, and few are handled at a time.
            _ if matches!(frame, Frame::Whole(_)) => None,
            Incoming::Whole(Message { head, tail }) => {
                let bytes = self.handler.decoded_bytes_max(head) + tail.len() as u64;
                Some(self.charged(charge, bytes).await?)
            }
            Incoming::Head { head, .. } => Some(self.charged(None, self.handler.decoded_bytes_max(head)).await?),
            Incoming::Tail { .. } => charge.map(|charge| (charge, None)),
        };
        // After a single message, or the last one, nothing else is coming to wait for.
        match is_last {
            true => self.handler.on_message(self.link, incoming),
            false => self.gathered.during(|| self.handler.on_message(self.link, incoming)),
        }
        Ok(())
    }

    /// A charge of at least `bytes`; an existing charge grows. If there is no room for that, one message of the whole node at a time may take the rest
    /// uncharged: else messages that are here would wait for each other's bytes.
    ///
    /// # Errors
    /// There would be no room for the message even alone, or its turn does not come.
    async fn charged(&mut self, charge: Option<Lease>, bytes: u64) -> Result<Charge<'a>, LinkError> {
        let link: &'a Link = self.link;
        let mut charge = charge.unwrap_or_else(|| link.memory.none());
        let Err(why) = charge.resize(bytes.max(charge.bytes())) else { return Ok((charge, None)) };
        let no_memory = || LinkError::NoMemory { peer: link.peer.clone(), why };
        if bytes > link.memory.bytes_max() {
            return Err(no_memory());
        }
        self.gathered.write();
        link.counters.was_held_up.store(true, Relaxed);
        let wait_max = Duration::from_millis(link.config.memory_wait_ms_max);
        let turn = timeout(wait_max, link.memory.beyond()).await.map_err(|_| no_memory())?;
        self.awake()?;
        Ok((charge, Some(turn)))
    }

    /// Whether answers to a peer that lets them pile up have grown by [`SLOW_ANSWER_BYTES`] since the last time.
    fn has_answered_much(&self, queued_bytes: &mut u64) -> bool {
        if !self.link.overflows.load(Relaxed) {
            return false;
        }
        let now = self.link.queued_bytes();
        let much = now >= queued_bytes.saturating_add(SLOW_ANSWER_BYTES);
        *queued_bytes = if much { now } else { now.min(*queued_bytes) };
        much
    }

    /// Ends a turn. This takes longer if the peer has to read what is queued for it, or the handler has to catch up.
    async fn let_others(&mut self) -> Result<(), LinkError> {
        self.gathered.write();
        let held_up = &self.link.counters.was_held_up;
        if self.link.overflows.load(Relaxed) {
            held_up.store(true, Relaxed);
            // A notice and the end of the pause are both reason to look again.
            let _ = timeout(SLOW_PAUSE, self.link.room.notified()).await;
        } else {
            tokio::task::yield_now().await;
        }
        while self.handler.is_behind() {
            held_up.store(true, Relaxed);
            sleep(BEHIND_PAUSE).await;
            self.awake()?;
        }
        self.awake()
    }

    /// Waits a little for memory.
    ///
    /// # Errors
    /// It has waited too long.
    async fn wait_for_memory(&mut self, since: Instant, why: OverBudget) -> Result<(), LinkError> {
        if since.elapsed() >= Duration::from_millis(self.link.config.memory_wait_ms_max) {
            return Err(LinkError::NoMemory { peer: self.link.peer.clone(), why });
        }
        self.gathered.write();
        self.link.counters.was_held_up.store(true, Relaxed);
        sleep(MEMORY_PAUSE).await;
        self.awake()
    }

    /// The reader returns to the stream.
    fn returns(&mut self) {
        if self.gauge.is_on() {
            self.gauge.returns(Instant::now());
        }
    }

    fn came(&mut self, bytes: usize, all: bool) {
        if self.gauge.is_on() {
            self.gauge.came(bytes, all, self.watch.seen_at);
        }
    }

    fn misbehaved(&self, what: FrameError) -> LinkError {
        LinkError::misbehaved(&self.link.peer, what)
    }
}
