//! One link: the handle that everybody holds.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SetOnce, watch};
use tokio::time::Instant;

use crate::burst::Writer;
use crate::config::EndpointConfig;
use crate::egress::{Egress, Pumped};
use crate::gather;
use crate::hello::{Hello, encode_hello};
use crate::measure::Measured;
use crate::message::{Identity, Lane, Message, Place};
use crate::outbox::{OutFrame, Ticket};
use crate::pipe::Pipe;
use crate::slots::customer_of;
use crate::{FrameError, LinkError, MemoryBudget, SendRefused};

/// What each message costs its lane beyond its bytes, so that empty messages are bounded too.
const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// How many writes a sender does itself before it leaves the rest to the flusher.
const INLINE_WRITES_MAX: usize = 2;

/// A live (or lost) link to one peer. Shared: the handle lives as long as somebody holds it; the connection ends with the endpoint.
pub struct Link {
    me: Weak<Self>,
    pub(crate) id: u64,
    pub(crate) peer: String,
    host: Option<IpAddr>,
    pub(crate) place: Option<Place>,
    pub(crate) config: Arc<EndpointConfig>,
    /// The memory that its address may take.
    pub(crate) memory: MemoryBudget,
    egress: Mutex<Egress>,
    lanes: [Semaphore; 3],
    /// Whether more than `overflow_bytes_max` waits beyond the lanes' bounds, or there was no memory for a message.
    pub(crate) overflows: AtomicBool,
    /// Notified when that is over.
    pub(crate) room: Notify,
    pub(crate) hello: SetOnce<Hello>,
    /// The node at the other end, once it has refused this link because it has another to this endpoint.
    pub(crate) refused_by: OnceLock<u64>,
    pub(crate) ended: SetOnce<LinkError>,
    /// Set when the reader task has told everybody and ended.
    pub(crate) done: SetOnce<()>,
    pub(crate) counters: Counters,
    newest: Mutex<Measured>,
    /// The measurement that was reported last.
    told: watch::Sender<Measured>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) messages_sent: AtomicU64,
    pub(crate) messages_received: AtomicU64,
    /// Bytes of messages that come in fragments.
    pub(crate) fragment_bytes: AtomicU64,
    /// Whether, at some moment since the flusher last looked, no message from the peer was incomplete.
    pub(crate) was_whole: AtomicBool,
    /// Whether, since the flusher last looked, this side let the peer wait.
    pub(crate) was_held_up: AtomicBool,
}

/// What a link has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Bytes given to the byte stream, headers included.
    pub bytes_sent: u64,
    /// Bytes taken from the byte stream, headers included.
    pub bytes_received: u64,
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Messages delivered to the handler, heads and tails counted as one.
    pub messages_received: u64,
    /// The shortest round trip of the last eight pings, in microseconds; `None` before the first.
    pub round_trip_us: Option<u64>,
    /// How fast long messages (128 KiB and more) came from the peer: the median of the last five rates, in bytes per second; `None` before the first.
    pub bytes_per_s: Option<u64>,
    /// Waiting to go out, all lanes together, in bytes (64 more for each message).
    pub queued_bytes: u64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.identity().map(|identity| identity.node);
        f.debug_struct("Link").field("peer", &self.peer).field("node", &node).field("ended", &self.ended.get()).finish()
    }
}

impl Link {
    pub(crate) fn new(
        id: u64,
        (peer, host): (String, Option<IpAddr>),
        place: Option<Place>,
        config: Arc<EndpointConfig>,
        memory: MemoryBudget,
        egress: Egress,
    ) -> Arc<Self> {
        let lanes = config.queue_bytes_max().map(|bytes| Semaphore::new(bytes as usize));
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            id,
            peer,
            host,
            place,
            config,
            memory,
            egress: Mutex::new(egress),
            lanes,
            overflows: AtomicBool::new(false),
            room: Notify::new(),
            hello: SetOnce::new(),
            refused_by: OnceLock::new(),
            ended: SetOnce::new(),
            done: SetOnce::new(),
            counters: Counters::default(),
            newest: Mutex::default(),
            told: watch::Sender::default(),
        })
    }

    /// The link's number, which no other link of its endpoint ever has. What a peer says about itself holds for this link, while the link lives.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Who the peer says it is; `None` until its hello has come (a dialler may send before that).
    pub fn identity(&self) -> Option<&Identity> {
        self.hello.get().map(|hello| &hello.identity)
    }

    /// The peer's address: as dialled, or as the system named the caller.
    pub fn peer_address(&self) -> &str {
        &self.peer
    }

    /// To whom the peer's address belongs; for IPv6 the first 64 bits, which all belong to one customer. `None` for a process on this machine that connects in
    /// a way that others cannot use.
    pub fn host(&self) -> Option<IpAddr> {
        self.host.map(customer_of)
    }

    /// Where it was dialled; `None` when the peer dialled.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Why the link ended; `None` while it lives.
    pub fn ended(&self) -> Option<&LinkError> {
        self.ended.get()
    }

    /// Waits for the peer's hello.
    ///
    /// # Errors
    /// The link ended first.
    pub async fn introduced(&self) -> Result<&Identity, LinkError> {
        tokio::select! {
            biased;
            hello = self.hello.wait() => Ok(&hello.identity),
            why = self.ended.wait() => Err(why.clone()),
        }
    }

    /// Waits until the link has ended. Cancel-safe.
    pub async fn lost(&self) -> &LinkError {
        self.ended.wait().await
    }

    /// Sends a message: at once if there is room, else as soon as there is.
    ///
    /// If nothing is queued, the bytes go to the socket here, without a task switch; a message that comes right after a row of others goes when the tasks that
    /// are ready have run. `Ok` means accepted: the link may still be lost before the peer has it.
    ///
    /// Cancel-safe: if it is dropped before it is ready, nothing was queued.
    ///
    /// # Errors
    /// The link is gone, or the message is larger than the peer accepts.
    pub async fn send(&self, message: Message) -> Result<(), LinkError> {
        let message = match self.try_send(message) {
            Ok(()) => return Ok(()),
            Err(SendRefused::Broken(why)) => return Err(why),
            Err(SendRefused::Full(message)) => message,
        };
        if message.lane() == Lane::Large {
            self.introduced().await?;
            self.check_size(&message)?;
        }
        let ticket = self.ticket(&message);
        let lane = &self.lanes[ticket.lane.index()];
        lane.acquire_many(self.permits(ticket)).await.map_err(|_| self.why())?.forget();
        self.enqueue(message, ticket)
    }

    /// Sends a message if that needs no waiting: for handlers, and for callers that would rather do something else.
    ///
    /// # Errors
    /// [`SendRefused::Full`] gives the message back.
    pub fn try_send(&self, message: Message) -> Result<(), SendRefused> {
        if message.lane() == Lane::Large {
            if self.hello.get().is_none() && self.ended.get().is_none() {
                return Err(SendRefused::Full(message));
            }
            self.check_size(&message)?;
        }
        let ticket = self.ticket(&message);
        if !self.admit(ticket)? {
            return Err(SendRefused::Full(message));
        }
        Ok(self.enqueue(message, ticket)?)
    }

    /// Sends a message without waiting, beyond its lane's bound if need be: for answers to the peer. The message is charged to the peer's address. If more than
    /// `overflow_bytes_max` wait beyond the bounds, whatever the peer sends is read slowly until it has read its answers: slowly, but not never, since two
    /// nodes that both stopped reading would wait for each other.
    ///
    /// # Errors
    /// The link is gone or not introduced, the message is larger than the peer accepts, or there is no memory for it.
    pub fn post(&self, message: Message) -> Result<(), LinkError> {
        let ticket = self.ticket(&message);
        self.post_by(ticket, message)
    }

    /// The same for a part of something long: it takes turns with other bulk, after the parts posted before it, and small messages overtake it. A small part
    /// goes as one frame, and need not be assembled by the receiver. A part of the large lane goes like any other message of that lane.
    ///
    /// # Errors
    /// As [`Link::post`].
    pub fn post_part(&self, message: Message) -> Result<(), LinkError> {
        let ticket = match self.ticket(&message) {
            large @ Ticket { lane: Lane::Large, .. } => large,
            other => Ticket { lane: Lane::Medium, part: true, ..other },
        };
        self.post_by(ticket, message)
    }

    fn post_by(&self, ticket: Ticket, message: Message) -> Result<(), LinkError> {
        if ticket.lane == Lane::Large && self.hello.get().is_none() {
            return Err(LinkError::QueueFull { peer: self.peer.clone() });
        }
        self.check_size(&message)?;
        let over = !self.admit(ticket)?;
        let pushed = self.push(message, Ticket { over, ..ticket }, false);
        if pushed.as_ref().map_or(true, |egress| egress.overflow_bytes > self.config.overflow_bytes_max) {
            self.overflows.store(true, Relaxed);
        }
        self.push_out(pushed?);
        Ok(())
    }

    /// Queues a small message for the next flush, at the latest after `lazy_ms_max` (5 ms). Order with other small
    /// messages is kept. A message of another lane is sent at once instead.
    ///
    /// # Errors
    /// The link is gone, or the lane is full.
    pub fn send_lazily(&self, message: Message) -> Result<(), LinkError> {
        let full = || LinkError::QueueFull { peer: self.peer.clone() };
        if message.lane() != Lane::Small {
            return self.try_send(message).map_err(|refused| match refused {
                SendRefused::Broken(why) => why,
                SendRefused::Full(_) => full(),
            });
        }
        let ticket = self.ticket(&message);
        if !self.admit(ticket)? {
            return Err(full());
        }
        let mut egress = self.push(message, ticket, true)?;
        if egress.lazy_due.is_none() {
            let due = Instant::now() + Duration::from_millis(self.config.lazy_ms_max);
            egress.lazy_due = Some(due);
            // The flusher keeps an earlier timer and looks again when it fires: one wake-up per lapse of a timer, not per message.
            if egress.timer_at.is_none_or(|at| at > due) {
                egress.wake_flusher();
            }
        }
        Ok(())
    }

    /// Writes what waits for the link's own task: for a thread that knows that this task cannot run.
    pub fn write_what_waits(&self) {
        self.write_now(self.egress());
    }

    /// What the link has done so far.
    pub fn stats(&self) -> LinkStats {
        let counters = &self.counters;
        let Measured { round_trip_us, bytes_per_s } = *lock(&self.newest);
        LinkStats {
            bytes_sent: counters.bytes_sent.load(Relaxed),
            bytes_received: counters.bytes_received.load(Relaxed),
            messages_sent: counters.messages_sent.load(Relaxed),
            messages_received: counters.messages_received.load(Relaxed),
            round_trip_us,
            bytes_per_s,
            queued_bytes: self.queued_bytes(),
        }
    }

    /// How far the peer is and how fast bytes come from it: reported when first known, and again when it has changed by more than a quarter, so that following
    /// it costs nothing. [`Link::stats`] has the newest values.
    pub fn measured(&self) -> Measured {
        *self.told.borrow()
    }

    /// Waits until [`Link::measured`] differs from `seen`; `None`: the link has ended.
    ///
    /// Cancel-safe.
    pub async fn measured_beyond(&self, seen: Measured) -> Option<Measured> {
        let mut told = self.told.subscribe();
        tokio::select! {
            biased;
            _ = self.ended.wait() => None,
            told = told.wait_for(|told| *told != seen) => told.ok().map(|told| *told),
        }
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.egress().queued_bytes
    }

    /// Whether the peer accepts a message of `bytes` bytes.
    pub fn takes(&self, bytes: u64) -> bool {
        bytes <= self.message_bytes_max()
    }

    /// Ends the link, because something that was sent beside it is lost.
    pub fn give_up(&self, reason: &str) {
        self.end(LinkError::Io { peer: self.peer.clone(), kind: io::ErrorKind::Other, reason: reason.to_owned() });
    }

    /// The most bytes that a message on this link may have.
    pub fn message_bytes_max(&self) -> u64 {
        let theirs = self.hello.get().map_or(u64::MAX, |hello| hello.limits.message_bytes_max);
        theirs.min(self.config.limits.message_bytes_max)
    }

    fn check_size(&self, message: &Message) -> Result<(), LinkError> {
        let bytes_max = self.message_bytes_max();
        let bytes = message.bytes();
        if bytes as u64 > bytes_max {
            return Err(LinkError::TooLarge { peer: self.peer.clone(), bytes, bytes_max });
        }
        Ok(())
    }

    fn ticket(&self, message: &Message) -> Ticket {
        let bytes = u32::try_from(message.bytes() + MESSAGE_OVERHEAD_BYTES).unwrap_or(u32::MAX);
        Ticket { lane: message.lane(), bytes, over: false, part: false }
    }

    /// The room that a message takes in its lane: one that is larger than the lane takes all of it, and so goes alone.
    fn permits(&self, ticket: Ticket) -> u32 {
        if ticket.over { 0 } else { ticket.bytes.min(self.config.queue_bytes_max()[ticket.lane.index()]) }
    }

    /// Takes room in the lane, if there is enough.
    fn admit(&self, ticket: Ticket) -> Result<bool, LinkError> {
        match self.lanes[ticket.lane.index()].try_acquire_many(self.permits(ticket)) {
            Ok(room) => {
                room.forget();
                Ok(true)
            }
            Err(tokio::sync::TryAcquireError::NoPermits) => Ok(false),
            Err(tokio::sync::TryAcquireError::Closed) => Err(self.why()),
        }
    }

    /// Queues a message that was admitted.
    fn push(&self, message: Message, ticket: Ticket, lazy: bool) -> Result<MutexGuard<'_, Egress>, LinkError> {
        let mut egress = self.open_egress()?;
        if let Err(why) = egress.push(message, ticket, lazy) {
            drop(egress);
            self.give_back(ticket);
            return Err(LinkError::NoMemory { peer: self.peer.clone(), why });
        }
        self.counters.messages_sent.fetch_add(1, Relaxed);
        Ok(egress)
    }

    fn give_back(&self, ticket: Ticket) {
        self.lanes[ticket.lane.index()].add_permits(self.permits(ticket) as usize);
    }

    /// Queues a message that was admitted, and writes as much as the stream accepts.
    fn enqueue(&self, message: Message, ticket: Ticket) -> Result<(), LinkError> {
        self.push_out(self.push(message, ticket, false)?);
        Ok(())
    }

    /// Writes what is queued now or, if more is about to come, a little later.
    fn push_out(&self, mut egress: MutexGuard<'_, Egress>) {
        if !egress.blocked && !egress.is_shaped() {
            if gather::put_off(&self.me, &mut egress.put_off) {
                return;
            }
            let queued_bytes = egress.queued_bytes;
            match egress.burst.queued(Instant::now(), queued_bytes) {
                Writer::Sender => {}
                Writer::Flusher => return egress.wake_flusher(),
                Writer::FlusherAwake => return,
            }
        }
        self.write_now(egress);
    }

    /// Writes as much as the stream accepts. If that fails the link has ended, and its reader task reports it: what was queued may have been sent.
    fn write_now(&self, mut egress: MutexGuard<'_, Egress>) {
        if egress.blocked {
            return;
        }
        if egress.is_shaped() {
            return egress.wake_flusher();
        }
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..INLINE_WRITES_MAX {
            match self.pump(&mut egress, &mut cx) {
                Poll::Ready(Ok(Pumped::Dry)) => return,
                Poll::Ready(Ok(Pumped::More)) => {}
                // The stream now remembers a waker that does nothing: the flusher has to leave its own.
                Poll::Pending => break,
                Poll::Ready(Err(error)) => {
                    drop(egress);
                    return self.end(LinkError::io(&self.peer, &error));
                }
            }
        }
        egress.wake_flusher();
    }

    /// Writes what was put off.
    pub(crate) fn write_put_off(&self) {
        let mut egress = self.egress();
        egress.put_off = false;
        self.write_now(egress);
    }

    /// Does one write, and the bookkeeping for it.
    pub(crate) fn pump(&self, egress: &mut Egress, cx: &mut Context<'_>) -> Poll<io::Result<Pumped>> {
        let pumped = egress.pump(cx);
        let freed = !egress.freed.is_empty();
        while let Some(ticket) = egress.freed.pop() {
            egress.release(ticket);
            self.give_back(ticket);
        }
        let over = || egress.overflow_bytes > self.config.overflow_bytes_max;
        if freed && self.overflows.load(Relaxed) && !over() {
            self.overflows.store(false, Relaxed);
            self.room.notify_one();
        }
        if egress.written_bytes > 0 {
            self.counters.bytes_sent.fetch_add(std::mem::take(&mut egress.written_bytes), Relaxed);
        }
        pumped
    }

    pub(crate) fn egress(&self) -> MutexGuard<'_, Egress> {
        lock(&self.egress)
    }

    /// The sending half, if the link still accepts messages.
    fn open_egress(&self) -> Result<MutexGuard<'_, Egress>, LinkError> {
        let egress = self.egress();
        if self.ended.get().is_some() || egress.closing {
            return Err(self.why());
        }
        Ok(egress)
    }

    fn why(&self) -> LinkError {
        self.ended.get().cloned().unwrap_or_else(|| LinkError::Closed { peer: self.peer.clone() })
    }

    /// Sends this side's hello, ahead of anything else that is sent from now on.
    pub(crate) fn greet(&self, hello: Hello) {
        let mut egress = self.egress();
        egress.push_first(OutFrame::raw(encode_hello(&hello)));
        egress.wake_flusher();
    }

    /// Notes the peer's hello: from now on its limits hold, and its site decides the shape.
    pub(crate) fn introduce(&self, hello: Hello, pipe: Option<Arc<Pipe>>) {
        let mut egress = self.egress();
        egress.outbox.set_limits(hello.limits);
        egress.shape(pipe);
        drop(egress);
        // Cannot fail: only the reader task introduces, and only once.
        let _ = self.hello.set(hello);
    }

    pub(crate) fn answer_ping(&self, nonce: u64) {
        let mut egress = self.egress();
        egress.outbox.push_pong(nonce);
        self.push_out(egress);
    }

    /// Pings the peer, to measure the round trip.
    pub(crate) fn ping(&self, egress: &mut Egress) {
        let nonce = egress.pings.send(Instant::now());
        egress.outbox.push_ping(nonce);
    }

    /// Pings the peer, and writes the ping at once.
    pub(crate) fn ping_now(&self) {
        if let Ok(mut egress) = self.open_egress() {
            self.ping(&mut egress);
            self.push_out(egress);
        }
    }

    /// Notes a pong.
    pub(crate) fn pong_came(&self, nonce: u64) -> Result<(), FrameError> {
        let (round_trip_us, too_few) = {
            let pings = &mut self.egress().pings;
            pings.answer(nonce, Instant::now())?;
            (pings.round_trip_us(), pings.are_too_few())
        };
        if let Some(round_trip_us) = round_trip_us {
            self.tell_measured(|newest| newest.round_trip_us = Some(round_trip_us));
        }
        if too_few {
            self.ping_now();
        }
        Ok(())
    }

    /// Bytes of the peer came beside the link, at this rate: it counts as the link's until the link itself has brought a long message.
    pub fn suppose_rate(&self, bytes_per_s: u64) {
        self.tell_measured(|newest| newest.bytes_per_s = newest.bytes_per_s.or(Some(bytes_per_s)));
    }

    /// Notes how fast bytes come.
    pub(crate) fn rate_measured(&self, bytes_per_s: u64) {
        self.tell_measured(|newest| newest.bytes_per_s = Some(bytes_per_s));
    }

    fn tell_measured(&self, change: impl FnOnce(&mut Measured)) {
        let mut newest = lock(&self.newest);
        change(&mut newest);
        if self.told.borrow().is_outdated_by(&newest) {
            self.told.send_replace(*newest);
        }
    }

    /// Accepts no more messages, sends what is queued, then tells the peer.
    pub(crate) fn begin_close(&self) {
        let mut egress = self.egress();
        egress.closing = true;
        self.lanes.iter().for_each(Semaphore::close);
        egress.wake_flusher();
    }

    /// Ends the link; only the first reason is kept. The reader task tells the handler.
    pub(crate) fn end(&self, why: LinkError) {
        let mut egress = self.egress();
        let why = if egress.closing { LinkError::Closed { peer: self.peer.clone() } } else { why };
        // Only the first call succeeds.
        let _ = self.ended.set(why);
        self.lanes.iter().for_each(Semaphore::close);
        egress.abandon();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
