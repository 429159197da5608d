//! The clock of a node.

use std::time::Duration;

use catena_core::Time;
use catena_net::awake::since_boot;

/// Time since the clock was made. It never goes back, and it includes the time for which the host sleeps: a hop that is resent states its age, from which the
/// receiver, which may have been awake meanwhile, decides whether it may already have forgotten the step.
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
