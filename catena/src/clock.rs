//! The time that a node lives by.

use std::time::Duration;

use catena_core::Time;
use rustix::time::{ClockId, clock_gettime};

/// Since it was made. It never goes back, and goes on while the host sleeps: how old a step is tells another node whether it may have forgotten that step,
/// and that one may have been awake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { began: since_boot() }
    }

    pub(crate) fn now(&self) -> Time {
        let us = since_boot().saturating_sub(self.began).as_micros();
        Time::from_us(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
