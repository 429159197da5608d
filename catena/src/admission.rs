//! How many calls a service runs at one time, and how many may wait for their turn (Quatrain, section 3.4).

use std::sync::{Arc, Mutex};

use catena_core::{Party, Places};
use catena_wire::{Exception, Fault, names};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::shell::lock;

/// Concurrent calls of one service's blocking functions, unless the service sets another limit: each has a thread.
pub(crate) const BLOCKING_AT_ONCE_MAX: usize = 64;
/// Calls that wait for one of those threads.
pub(crate) const BLOCKING_WAITING_MAX: usize = 1_024;

/// Places that parties share: none takes more than it leaves free for the next, and some are this node's own.
#[derive(Clone)]
pub(crate) struct Room(Arc<Mutex<Places>>);

impl Room {
    pub(crate) fn new(places_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Places::new(places_max))))
    }

    /// `None`: this party's share is taken.
    pub(crate) fn take(&self, by: Party) -> Option<Place> {
        lock(&self.0).take(by).then(|| Place { room: self.clone(), by })
    }
}

/// A place, given back on drop.
pub(crate) struct Place {
    room: Room,
    by: Party,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.room.0).give_back(self.by);
    }
}

/// A bounded number of concurrent calls, with a bounded queue in front.
#[derive(Clone)]
pub(crate) struct Admission {
    /// One place for each call that runs or waits.
    room: Room,
    turns: Arc<Semaphore>,
    places_max: usize,
}

/// The turn and the place in the queue of one call; dropping it frees both.
pub(crate) struct Turn {
    _turn: OwnedSemaphorePermit,
    _place: Place,
}

impl Admission {
    pub(crate) fn new(at_once_max: usize, waiting_max: usize) -> Self {
        let at_once_max = at_once_max.clamp(1, Semaphore::MAX_PERMITS / 2);
        let places_max = at_once_max + waiting_max.min(Semaphore::MAX_PERMITS / 2);
        Self { room: Room::new(places_max), turns: Arc::new(Semaphore::new(at_once_max)), places_max }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `Overloaded`, at once, if too many wait already, or too many of this party.
    pub(crate) async fn enter(self, by: Party, service: &str, host: &str) -> Result<Turn, Exception> {
        let Some(place) = self.room.take(by) else {
            let message = format!(
                "{service} on {host} takes on {} calls, under way or waiting, and of one caller no more than leave as much room for others; nothing was done; try again later or elsewhere",
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
    use catena_wire::NodeId;
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn so_many_at_once_so_many_wait_and_the_next_is_refused_by_name() {
        let admission = Admission::new(1, 1);
        let enter = || admission.clone().enter(Party::Own, "s", "here");
        let first = enter().now_or_never().unwrap().unwrap();
        let mut second = Box::pin(enter());
        assert!((&mut second).now_or_never().is_none(), "it waits");
        let refused = enter().now_or_never().unwrap();
        assert!(matches!(refused, Err(why) if why.name == names::OVERLOADED));
        drop(first);
        assert!(second.now_or_never().unwrap().is_ok());
        assert!(enter().now_or_never().unwrap().is_ok(), "all places are free again");
    }

    #[test]
    fn no_party_takes_more_places_than_it_leaves_and_some_are_this_node_s_own() {
        let room = Room::new(64);
        let [one, other] = [1, 2].map(|node| Party::Node(NodeId(node)));
        let all_of = |by| std::iter::from_fn(|| room.take(by)).collect::<Vec<_>>();
        let [first, second, own] = [one, other, Party::Own].map(all_of);
        assert_eq!([&first, &second, &own].map(Vec::len), [29, 14, 21]);
        drop(first);
        assert_eq!([one, Party::Own].map(|by| all_of(by).len()), [11, 29], "what is given back is free again");
    }
}
