//! The time that a node lives by.

use std::time::Duration;

use catena_core::Time;
use catena_net::since_boot;

/// Time since it was made. It never goes back, and it counts the time that the host sleeps: a hop that is sent again says how old it is, and its receiver,
/// which may have been awake meanwhile, decides by that age whether it may have forgotten the step.
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
