//! From the outbox, through the shape if there is one, into the byte stream.
//!
//! Lives under the link's lock. Whoever sends pumps it inline; when the stream accepts no more, or time has to pass, the flusher task continues.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::Limits;
use crate::Message;
use crate::burst::Burst;
use crate::measure::Pings;
use crate::memory::{Lease, OverBudget};
use crate::outbox::{OutFrame, Outbox, Ticket};
use crate::pipe::Pipe;

/// Bulk bytes offered to the stream in one write. What the stream does not accept stays behind later small messages.
const BATCH_BYTES_MAX: usize = 64 * 1024;
/// Pieces in one vectored write.
const PIECES_MAX: usize = 64;
/// Up to this many bytes are copied into one piece: cheaper than a vectored write.
const COPY_BYTES_MAX: usize = 4 * 1024;
/// Small frames prepared at once: with three pieces each they fill one write.
const SMALL_FRAMES_MAX: usize = 21;

/// What each link is charged from the start: for its buffers, and for a part of its queue.
pub(crate) const STANDING_BYTES: u64 = 128 * 1024;
/// How many queued bytes that charge covers.
const QUEUED_FREE_BYTES: u64 = 64 * 1024;
/// Queued bytes beyond that are charged in units of this size, so that few messages touch the account that all links share.
const CHARGED_BYTES: u64 = 256 * 1024;

/// The writing half of a byte stream.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// How far a pump got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Nothing is left that may go now.
    Dry,
    /// One write was done and more may follow.
    More,
}

/// The sending half of a link.
pub(crate) struct Egress {
    pub(crate) outbox: Outbox,
    writer: Option<Writer>,
    /// A frame written in part: it must be finished first.
    partial: Option<OutFrame>,
    small: VecDeque<OutFrame>,
    bulk: VecDeque<OutFrame>,
    bulk_bytes: usize,
    pipe: Option<Arc<Pipe>>,
    /// Frames in the pipe, each with the time at which it reaches the far end.
    line: VecDeque<(Instant, OutFrame)>,
    line_bytes: usize,
    /// Since when something has been waiting for nothing but the pipe.
    waits_since: Option<Instant>,
    /// Tells this link from others in the same pipe.
    id: u64,
    /// Where short writes are put together.
    scratch: Vec<u8>,
    needs_flush: bool,
    /// The stream accepts no more. Only the flusher may try again, because the stream remembers its waker.
    pub(crate) blocked: bool,
    /// When the pipe lets the next frame in or out.
    pub(crate) pipe_wake_at: Option<Instant>,
    pub(crate) lazy_due: Option<Instant>,
    /// What the flusher's timer is set to.
    pub(crate) timer_at: Option<Instant>,
    pub(crate) flusher: Option<Waker>,
    /// Whether to send what is queued and then shut down.
    pub(crate) closing: bool,
    shut_down: bool,
    /// Whether somebody will write a little later.
    pub(crate) put_off: bool,
    pub(crate) burst: Burst,
    pub(crate) pings: Pings,
    /// The charge for what is queued.
    lease: Lease,
    /// Bytes of messages that wait.
    pub(crate) queued_bytes: u64,
    /// Bytes of those beyond the lanes' bounds.
    pub(crate) overflow_bytes: u64,
    /// Whether nothing was queued at some moment since the flusher last looked.
    pub(crate) was_dry: bool,
    /// Room that whoever pumped has to give back to the lanes, and bytes that it has to count.
    pub(crate) freed: Vec<Ticket>,
    pub(crate) written_bytes: u64,
}

impl Egress {
    pub(crate) fn new(id: u64, writer: Writer, pipe: Option<Arc<Pipe>>, lease: Lease) -> Self {
        Self {
            outbox: Outbox::new(Limits::FLOOR),
            writer: Some(writer),
            partial: None,
            small: VecDeque::new(),
            bulk: VecDeque::new(),
            bulk_bytes: 0,
            pipe,
            line: VecDeque::new(),
            line_bytes: 0,
            waits_since: None,
            id,
            scratch: Vec::new(),
            needs_flush: false,
            blocked: false,
            pipe_wake_at: None,
            lazy_due: None,
            timer_at: None,
            flusher: None,
            closing: false,
            shut_down: false,
            put_off: false,
            burst: Burst::default(),
            pings: Pings::default(),
            lease,
            queued_bytes: 0,
            overflow_bytes: 0,
            was_dry: true,
            freed: Vec::new(),
            written_bytes: 0,
        }
    }

    /// Sends bytes that are not a frame, ahead of everything queued later; they pass through the shape like all others.
    pub(crate) fn push_first(&mut self, frame: OutFrame) {
        match &self.pipe {
            Some(pipe) => {
                let due = pipe.charge(Instant::now(), frame.left());
                self.line_bytes += frame.left();
                self.line.push_back((due, frame));
            }
            None => self.small.push_back(frame),
        }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn push(&mut self, message: Message, ticket: Ticket, lazy: bool) -> Result<(), OverBudget> {
        let bytes = u64::from(ticket.bytes);
        self.charge(self.queued_bytes + bytes)?;
        self.overflow_bytes += if ticket.over { bytes } else { 0 };
        self.outbox.push(message, ticket, lazy);
        Ok(())
    }

    /// Adjusts the charge to this many queued bytes.
    fn charge(&mut self, queued_bytes: u64) -> Result<(), OverBudget> {
        let beyond = if queued_bytes <= QUEUED_FREE_BYTES { 0 } else { queued_bytes };
        let needed = STANDING_BYTES + beyond.next_multiple_of(CHARGED_BYTES);
        // A charge is kept for a while, unless the queue is short again.
        if needed > self.lease.bytes() || needed + CHARGED_BYTES < self.lease.bytes() || beyond == 0 {
            self.lease.resize(needed)?;
        }
        self.queued_bytes = queued_bytes;
        self.was_dry |= queued_bytes == 0;
        Ok(())
    }

    /// A message has been sent.
    pub(crate) fn release(&mut self, ticket: Ticket) {
        let bytes = u64::from(ticket.bytes);
        self.overflow_bytes = self.overflow_bytes.saturating_sub(if ticket.over { bytes } else { 0 });
        // Reducing a charge is never refused.
        let _ = self.charge(self.queued_bytes.saturating_sub(bytes));
    }

    pub(crate) fn is_shaped(&self) -> bool {
        self.pipe.is_some()
    }

    /// Shapes from now on, if it is not shaped already.
    pub(crate) fn shape(&mut self, pipe: Option<Arc<Pipe>>) {
        self.pipe = self.pipe.take().or(pipe);
    }

    pub(crate) fn wake_flusher(&self) {
        if let Some(waker) = &self.flusher {
            waker.wake_by_ref();
        }
    }

    /// Drops the stream and all that waits.
    pub(crate) fn abandon(&mut self) {
        self.writer = None;
        self.outbox = Outbox::new(Limits::FLOOR);
        self.partial = None;
        self.small.clear();
        self.bulk.clear();
        self.line.clear();
        self.overflow_bytes = 0;
        let _ = self.charge(0);
        self.wake_flusher();
    }

    /// Does at most one write. `Pending`: the stream accepts no more, and `cx` will be woken when it does.
    pub(crate) fn pump(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pumped>> {
        self.blocked = true;
        let pumped = ready!(self.pump_once(cx));
        self.blocked = false;
        Poll::Ready(pumped)
    }

    fn pump_once(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pumped>> {
        if self.writer.is_none() {
            return Poll::Ready(Ok(Pumped::Dry));
        }
        self.fill();
        if !self.is_prepared() {
            return self.settle(cx);
        }
        let written = ready!(self.write(cx))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.written_bytes += written as u64;
        self.burst.written(Instant::now());
        self.needs_flush = true;
        self.advance(written);
        // Frames that wait for the pipe wait for the clock, not for another write.
        let more = self.is_prepared() || (self.pipe.is_none() && !self.outbox.is_empty());
        if more { Poll::Ready(Ok(Pumped::More)) } else { self.settle(cx) }
    }

    /// Whether something can be written now.
    fn is_prepared(&self) -> bool {
        self.partial.is_some() || !self.small.is_empty() || !self.bulk.is_empty()
    }

    /// Whether nothing waits behind what is already prepared.
    fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.line.is_empty()
    }

    /// Nothing to write now: flushes, and shuts down if the link is closing.
    fn settle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pumped>> {
        let quiet = self.is_quiet();
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(Pumped::Dry)) };
        if self.needs_flush {
            ready!(Pin::new(&mut *writer).poll_flush(cx))?;
            self.needs_flush = false;
        }
        if self.closing && quiet && !self.shut_down {
            ready!(Pin::new(writer).poll_shutdown(cx))?;
            self.shut_down = true;
        }
        Poll::Ready(Ok(Pumped::Dry))
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(0)) };
        let frames = || self.partial.iter().chain(&self.small).chain(&self.bulk);
        if self.bulk.is_empty() && frames().map(OutFrame::left).sum::<usize>() <= COPY_BYTES_MAX {
            self.scratch.clear();
            let scratch = &mut self.scratch;
            for frame in frames() {
                frame.slices(|piece| {
                    scratch.extend_from_slice(&piece);
                    true
                });
            }
            return Pin::new(writer).poll_write(cx, scratch);
        }
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let mut push = |piece| {
            let Some(place) = pieces.get_mut(count) else { return false };
            *place = piece;
            count += 1;
            true
        };
        for frame in frames() {
            if !frame.slices(&mut push) {
                break;
            }
        }
        Pin::new(writer).poll_write_vectored(cx, &pieces[..count])
    }

    fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let next = self.partial.take().or_else(|| self.small.pop_front()).or_else(|| {
                let frame = self.bulk.pop_front()?;
                self.bulk_bytes -= frame.left();
                Some(frame)
            });
            let Some(mut frame) = next else { return };
            bytes -= frame.advance(bytes);
            if frame.left() > 0 {
                self.partial = Some(frame);
                return;
            }
            self.freed.extend(frame.ticket);
        }
    }

    /// Prepares frames for the next write.
    fn fill(&mut self) {
        if self.outbox.is_empty() && self.line.is_empty() {
            return;
        }
        let lazy = !self.closing && self.outbox.is_only_lazy();
        let may_take = !(lazy && self.lazy_due.is_some_and(|due| due > Instant::now()));
        match self.pipe.clone() {
            None if may_take => self.take_directly(),
            None => {}
            Some(pipe) => self.take_shaped(&pipe, may_take),
        }
        if !self.outbox.has_small() {
            self.lazy_due = None;
        }
    }

    fn take_directly(&mut self) {
        while self.small.len() < SMALL_FRAMES_MAX {
            let Some(frame) = self.outbox.next_small() else { break };
            self.small.push_back(frame);
        }
        while self.bulk_bytes < BATCH_BYTES_MAX && self.small.len() < SMALL_FRAMES_MAX {
            let Some(frame) = self.outbox.next_fragment(usize::MAX) else { break };
            self.bulk_bytes += frame.left();
            self.bulk.push_back(frame);
        }
    }

    fn take_shaped(&mut self, pipe: &Pipe, may_take: bool) {
        let now = Instant::now();
        self.pipe_wake_at = None;
        while may_take && !self.outbox.is_empty() {
            if self.line_bytes >= pipe.line_bytes_max() {
                // It is the stream that holds things up now, not the pipe.
                self.waits_since = None;
                break;
            }
            if let Err(at) = pipe.admit(now, self.id, self.outbox.has_small()) {
                self.pipe_wake_at = Some(at);
                self.waits_since.get_or_insert(now);
                break;
            }
            let fragment_bytes_max = pipe.fragment_bytes_max();
            let next = self.outbox.next_small().or_else(|| self.outbox.next_fragment(fragment_bytes_max));
            let Some(mut frame) = next else { break };
            // A frame in the pipe is no longer in the queue.
            self.freed.extend(frame.ticket.take());
            self.line_bytes += frame.left();
            self.line.push_back((pipe.charge(self.waits_since.unwrap_or(now), frame.left()), frame));
        }
        if self.outbox.is_empty() {
            self.waits_since = None;
        }
        // What comes out of the pipe keeps its order, so all of it goes into one queue.
        while self.small.len() < SMALL_FRAMES_MAX && self.line.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, frame)) = self.line.pop_front() else { break };
            self.line_bytes -= frame.left();
            self.small.push_back(frame);
        }
        let due = self.line.front().map(|(due, _)| *due);
        self.pipe_wake_at = [self.pipe_wake_at, due].into_iter().flatten().min();
    }
}
