//! What the host tracks about a guest: how long it has run, and how much memory it asked for.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use wasmtime::{Memory, ResourceLimiter, StoreContextMut, UpdateDeadline};

use crate::{
    budget::{INITIAL_BYTES, INSTANCE_FREE_BYTES, MemoryBudget},
    limits::{HARD_STOP_EPOCHS, Limits, MEMORY_RESERVE_BYTES},
    pages::Pages,
    seats::Place,
    ticker::Ticker,
};

/// A guest that grows by more yields at its next loop or call, which is usually before it uses that memory: filling it is one long operation, in which a guest
/// cannot yield.
const GROWN_IN_SLICE_BYTES_MAX: u64 = 4 << 20;

/// The time for which one step has run: the time in finished polls, plus the one under way.
pub(crate) struct Clock {
    origin: Instant,
    spent_ns: AtomicU64,
    entered_ns: AtomicU64,
    pub(crate) ticker: Arc<Ticker>,
}

impl Clock {
    pub(crate) fn new(ticker: Arc<Ticker>) -> Self {
        Self { origin: Instant::now(), spent_ns: AtomicU64::new(0), entered_ns: AtomicU64::new(0), ticker }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Runs `step`, counting only the time inside its polls.
    pub(crate) async fn run<F: Future>(&self, step: F) -> F::Output {
        let mut step = pin!(step);
        self.spent_ns.store(0, Ordering::Relaxed);
        std::future::poll_fn(|cx| {
            self.ticker.keep_awake();
            let entered = self.now_ns();
            self.entered_ns.store(entered, Ordering::Relaxed);
            let polled = step.as_mut().poll(cx);
            if polled.is_pending() {
                let spent = self.now_ns().saturating_sub(entered);
                self.spent_ns.fetch_add(spent, Ordering::Relaxed);
            }
            polled
        })
        .await
    }

    /// How long the step under way has run; called from inside it.
    fn spent(&self) -> Duration {
        let entered = self.entered_ns.load(Ordering::Relaxed);
        let poll = self.now_ns().saturating_sub(entered);
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed).saturating_add(poll))
    }
}

/// A guest ran on long after it was asked to stop.
#[derive(Debug, thiserror::Error)]
#[error("the step ran for longer than it may")]
pub(crate) struct Overtime;

/// The node has no room for the memory that a guest has written.
#[derive(Debug, thiserror::Error)]
#[error("there is no room for what the guest has written")]
struct NoRoom;

/// The data of a guest's store.
pub(crate) struct Host {
    pub(crate) clock: Arc<Clock>,
    step_max: Duration,
    memory_bytes_max: u64,
    /// Epochs of this step since its time was over.
    pub(crate) late_epochs: u32,
    /// The guest asked for more memory than its own limit.
    pub(crate) memory_broken: bool,
    /// The guest asked for more than is left for all guests of the node.
    pub(crate) node_full: bool,
    pub(crate) memory: Arc<dyn MemoryBudget>,
    taken_bytes: u64,
    /// In the share of whoever uses the instance: nobody, while it is kept ready.
    place: Option<Arc<Place>>,
    /// The guest's memory, once there is one.
    pub(crate) guest_memory: Option<Memory>,
    pages: Arc<Pages>,
    /// Pages that the guest has written, as found at the last epoch; kept so that it grows only once.
    written: Vec<u32>,
    /// What was taken from the budget for those of the first [`INITIAL_BYTES`].
    written_bytes: u64,
    /// Bytes by which the guest has grown since it last yielded.
    grown_bytes: u64,
}

impl Host {
    pub(crate) fn new(
        clock: Clock,
        limits: &Limits,
        memory: Arc<dyn MemoryBudget>,
        pages: Arc<Pages>,
        place: Option<Arc<Place>>,
    ) -> Self {
        Self {
            clock: Arc::new(clock),
            step_max: Duration::from_millis(limits.step_wall_ms_max.into()),
            memory_bytes_max: limits.memory_bytes_max,
            late_epochs: 0,
            memory_broken: false,
            node_full: false,
            memory,
            taken_bytes: 0,
            place,
            guest_memory: None,
            pages,
            written: Vec::new(),
            written_bytes: 0,
            grown_bytes: 0,
        }
    }

    /// Sets the limits, until they are set again.
    pub(crate) const fn limit(&mut self, limits: &Limits) {
        self.step_max = Duration::from_millis(limits.step_wall_ms_max as u64);
        self.memory_bytes_max = limits.memory_bytes_max;
    }

    /// Ends the guest's time, whatever it has used: it still has the epochs that a guest gets in which to stop.
    pub(crate) const fn end_time(&mut self) {
        self.step_max = Duration::ZERO;
    }

    /// `catena.interrupted`.
    pub(crate) fn interrupted(&self) -> i32 {
        i32::from(self.clock.spent() >= self.step_max)
    }

    /// Called at each epoch: yields, or stops the guest by force. A guest whose time is over has a number of epochs in which to see that and report where it
    /// is. Only epochs in which it ran count, since on a busy machine it may not have run at all for as many milliseconds.
    pub(crate) fn epoch(mut store: StoreContextMut<'_, Self>) -> wasmtime::Result<UpdateDeadline> {
        let host = store.data_mut();
        host.clock.ticker.busy();
        host.grown_bytes = 0;
        if !Self::charge_running(&mut store) {
            return Err(wasmtime::Error::new(NoRoom));
        }
        let host = store.data_mut();
        if host.clock.spent() >= host.step_max {
            host.late_epochs += 1;
            if host.late_epochs > HARD_STOP_EPOCHS {
                return Err(wasmtime::Error::new(Overtime));
            }
        }
        Ok(UpdateDeadline::Yield(1))
    }

    /// Takes from the budget what a guest that runs has written. Until the end of its first slice, only as many guests as there are threads have not been asked.
    fn charge_running(store: &mut StoreContextMut<'_, Self>) -> bool {
        let Some(memory) = store.data().guest_memory else { return true };
        let (bytes, host) = memory.data_and_store_mut(store);
        let mut written = std::mem::take(&mut host.written);
        host.pages.look(bytes.get(..INITIAL_BYTES).unwrap_or(bytes), &mut written);
        let granted = host.charge(&written);
        host.written = written;
        granted
    }

    /// Takes from the budget what the guest has written, so far as it is not free. `false`: there is no room for it.
    pub(crate) fn charge(&mut self, written: &[u32]) -> bool {
        let due = self.pages.bytes_among(written, INITIAL_BYTES).saturating_sub(INSTANCE_FREE_BYTES);
        let more = due.saturating_sub(self.written_bytes);
        let granted = self.take(more);
        if granted {
            self.written_bytes += more;
        }
        granted
    }

    /// Takes this much from the budget, and of the share of whoever uses the instance. `false`: there is no room for it.
    fn take(&mut self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let shared = self.place.as_ref().is_none_or(|place| place.take(bytes));
        let granted = shared && self.memory.take(bytes);
        match &self.place {
            Some(place) if shared && !granted => place.give_back(bytes),
            _ => {}
        }
        self.taken_bytes += if granted { bytes } else { 0 };
        self.node_full |= !granted;
        granted
    }

    /// The instance is used in this place from now on. One that goes from nobody's use to somebody's has taken nothing.
    pub(crate) fn set_place(&mut self, place: Option<Arc<Place>>) {
        if let Some(before) = std::mem::replace(&mut self.place, place) {
            before.give_back(self.taken_bytes);
        }
    }

    /// Whether nothing is taken from the budget, or would be for what the guest has written.
    pub(crate) fn is_free(&self, written: &[u32]) -> bool {
        self.taken_bytes == 0 && self.pages.bytes_among(written, INITIAL_BYTES) <= INSTANCE_FREE_BYTES
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.set_place(None);
        self.memory.give_back(self.taken_bytes);
    }
}

impl ResourceLimiter for Host {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // It would be taken from the budget, and then refused by the memory itself.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let desired = desired as u64;
        if desired <= self.memory_bytes_max {
            let more = desired.saturating_sub(INITIAL_BYTES.max(current) as u64);
            // The guest might cope with a refusal, but then its behaviour would depend on the other guests; so the step is stopped.
            let granted = self.take(more);
            // Before it runs, there is no slice to end.
            if granted && current > 0 {
                self.grown_bytes += more;
            }
            if self.grown_bytes > GROWN_IN_SLICE_BYTES_MAX {
                self.grown_bytes = 0;
                self.clock.ticker.end_slices();
            }
            return Ok(granted);
        }
        // The first excess is refused; after that a reserve is granted, in which the guest can report where it was.
        let granted = self.memory_broken && desired <= self.memory_bytes_max + MEMORY_RESERVE_BYTES;
        self.memory_broken = true;
        Ok(granted)
    }

    fn table_growing(&mut self, current: usize, _desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Tables are made at instantiation and never grow.
        Ok(current == 0)
    }
}
