//! How many calls a service runs at one time, and how many may wait for their turn (Quatrain, section 3.4).

use std::sync::Arc;

use catena_wire::{Exception, Fault, names};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent calls of one service's blocking functions, unless the service sets another limit: each has a thread.
pub(crate) const BLOCKING_AT_ONCE_MAX: usize = 64;
/// Calls that wait for one of those threads.
pub(crate) const BLOCKING_WAITING_MAX: usize = 1_024;

/// A bounded number of concurrent calls, with a bounded queue in front.
#[derive(Clone)]
pub(crate) struct Admission {
    /// One permit for each call that runs or waits.
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    places_max: usize,
}

/// The turn and the place in the queue of one call; dropping it frees both.
pub(crate) struct Turn {
    _turn: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(at_once_max: usize, waiting_max: usize) -> Self {
        let at_once_max = at_once_max.clamp(1, Semaphore::MAX_PERMITS / 2);
        let places_max = at_once_max + waiting_max.min(Semaphore::MAX_PERMITS / 2);
        Self { places: Arc::new(Semaphore::new(places_max)), turns: Arc::new(Semaphore::new(at_once_max)), places_max }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `Overloaded`, at once, if too many wait already.
    pub(crate) async fn enter(self, service: &str, host: &str) -> Result<Turn, Exception> {
        let Ok(place) = self.places.try_acquire_owned() else {
            let message = format!(
                "{service} on {host} has {} calls under way or waiting, which is all it takes on; nothing was done; try again later or elsewhere",
                self.places_max
            );
            return Err(Exception::new(names::OVERLOADED, Fault::Node, message));
        };
        match self.turns.acquire_owned().await {
            Ok(turn) => Ok(Turn { _turn: turn, _place: place }),
            Err(_) => Err(Exception::new(names::OVERLOADED, Fault::Node, "the service has been stopped")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn so_many_at_once_so_many_wait_and_the_next_is_refused_by_name() {
        let admission = Admission::new(1, 1);
        let enter = || admission.clone().enter("s", "here");
        let first = enter().now_or_never().unwrap().unwrap();
        let mut second = Box::pin(enter());
        assert!((&mut second).now_or_never().is_none(), "it waits");
        let refused = enter().now_or_never().unwrap();
        assert!(matches!(refused, Err(why) if why.name == names::OVERLOADED));
        drop(first);
        assert!(second.now_or_never().unwrap().is_ok());
        assert!(enter().now_or_never().unwrap().is_ok(), "all places are free again");
    }
}
