//! The clock of a node, and waiting that bears a stop of the process.

use std::{
    future::{Future, pending},
    pin::pin,
    time::Duration,
};

use catena_core::Time;
use catena_net::since_boot;
use tokio::time::error::Elapsed;

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

/// A wait that ends this much too late says that this process was stopped, or its host.
const LATE: Duration = Duration::from_millis(200);
/// For how long what has arrived during a stop is read before anything is given up for its time.
const CATCH_UP: Duration = Duration::from_millis(200);

/// [`tokio::time::timeout`] for what a link brings: nobody is called silent because this process was stopped while the answer came.
pub(crate) async fn timeout<F: Future>(wait: Duration, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, began) = (pin!(future), since_boot());
    match tokio::time::timeout(wait, &mut future).await {
        Err(_) if since_boot().saturating_sub(began) > wait.saturating_add(LATE) => {
            tokio::time::timeout(CATCH_UP, future).await
        }
        ended => ended,
    }
}

/// [`tokio::time::sleep`] before it is decided what has taken too long.
pub(crate) async fn sleep(wait: Duration) {
    let _ = timeout(wait, pending::<()>()).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_arrived_while_the_process_was_stopped_is_read_before_its_time_is_up() {
        const WAIT: Duration = Duration::from_millis(1);
        let (sender, receiver) = oneshot::channel();
        let waiting = tokio::spawn(timeout(WAIT, receiver));
        tokio::task::yield_now().await;
        // Both are due when the thread runs again, and the one that waits is called first.
        let reads_next = tokio::time::sleep(WAIT * 10);
        let began = since_boot();
        while since_boot() - began < LATE * 2 {
            std::hint::spin_loop();
        }
        reads_next.await;
        sender.send("what arrived").unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().unwrap(), "what arrived");
    }
}
