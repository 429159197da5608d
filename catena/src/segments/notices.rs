//! Notifications: control transfer along with data, only where somebody asked for it (section 3.1.1).

use std::{
    collections::VecDeque,
    os::fd::{AsFd, AsRawFd, RawFd},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use catena_segment::{Bell, MemoryError};
use catena_wire::{Exception, NodeId};
use futures_core::Stream;
use tokio::io::unix::AsyncFd;

use super::errors::of_memory;
use crate::shell::lock;

/// Notices of one segment that wait to be taken; beyond, the oldest is dropped and counted.
const NOTICES_MAX: usize = 1_024;

/// What was done to a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Bytes were read.
    Read,
    /// Bytes were written.
    Write,
    /// A word was compared, and perhaps swapped.
    Cas,
}

/// The small control information that comes with a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Who did what, from which byte on, and for how many bytes; `None` for accesses through shared memory, of which only the notification is known.
    pub access: Option<(NodeId, Access, u64, u64)>,
    /// How many accesses this notice stands for.
    pub times: u64,
    /// How many notices before this one were dropped because nobody took them in time.
    pub missed: u64,
}

/// What an owner was notified of and has not taken.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Mutex<Waiting>,
    /// Wakes a task that waits here without a descriptor.
    pub(super) told: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Notice>,
    missed: u64,
    /// Made when somebody listens, or may notify from another process.
    bell: Option<Arc<Bell>>,
    /// How often it was rung by this process since it was last taken.
    rung: u64,
}

impl Notices {
    pub(super) fn bell(&self) -> Result<Arc<Bell>, MemoryError> {
        let mut waiting = lock(&self.waiting);
        if let Some(bell) = &waiting.bell {
            return Ok(Arc::clone(bell));
        }
        let bell = Arc::new(Bell::new()?);
        waiting.queue.iter().for_each(|_| bell.ring());
        waiting.rung = waiting.queue.len() as u64;
        waiting.bell = Some(Arc::clone(&bell));
        Ok(bell)
    }

    pub(crate) fn tell(&self, from: NodeId, access: Access, offset: u64, bytes: u64) {
        let mut waiting = lock(&self.waiting);
        if waiting.queue.len() == NOTICES_MAX {
            waiting.queue.pop_front();
            waiting.missed += 1;
        }
        let missed = std::mem::take(&mut waiting.missed);
        waiting.queue.push_back(Notice { access: Some((from, access, offset, bytes)), times: 1, missed });
        if let Some(bell) = &waiting.bell {
            bell.ring();
            waiting.rung += 1;
        }
        self.told.notify_waiters();
    }

    /// The next notice, if there is one.
    pub(super) fn take(&self) -> Option<Notice> {
        let mut waiting = lock(&self.waiting);
        if let Some(notice) = waiting.queue.pop_front() {
            return Some(notice);
        }
        let rings = waiting.bell.as_ref()?.take()?;
        let others = rings.saturating_sub(std::mem::take(&mut waiting.rung));
        (others > 0).then(|| Notice { access: None, times: others, missed: std::mem::take(&mut waiting.missed) })
    }
}

/// Notifications of one segment, as a stream, and as a file descriptor that is readable while there are any.
#[derive(Debug)]
pub struct Notifications {
    of: Arc<super::exported::Exported>,
    bell: AsyncFd<Rung>,
}

#[derive(Debug)]
struct Rung(Arc<Bell>);

impl AsRawFd for Rung {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Notifications {
    pub(super) fn of(exported: Arc<super::exported::Exported>) -> Result<Self, Exception> {
        let bell = exported.notices.bell().map_err(|why| of_memory(&why))?;
        #[allow(
            deprecated,
            reason = "what takes its place is `unsafe`; this bell names one descriptor and owns it as long as it is registered"
        )]
        let bell = AsyncFd::new(Rung(bell)).map_err(|why| of_memory(&why.into()))?;
        Ok(Self { of: exported, bell })
    }

    /// Waits for the next notice. Cancel-safe.
    pub async fn next(&mut self) -> Option<Notice> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The next notice, if there is one now.
    pub fn try_next(&mut self) -> Option<Notice> {
        self.of.notices.take()
    }
}

impl Stream for Notifications {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Notice>> {
        loop {
            if let Some(notice) = self.of.notices.take() {
                return Poll::Ready(Some(notice));
            }
            match ready!(self.bell.poll_read_ready(context)) {
                // There was nothing when it was checked; whoever rings from now on wakes this task.
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return Poll::Ready(None),
            }
        }
    }
}
