//! What has come for a reply set and has not been read.
//!
//! Each chain has one, also the thousands that wait: an empty one takes nothing but its own few words, which a channel that makes room in
//! blocks does not.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker, ready},
};

use catena_core::Replied;
use tokio::task::coop;

use crate::shell::lock;

/// Answers held for a reader of a reply set that does not read; beyond, the set ends as `Overloaded`. Replies to a call never come so far: there,
/// whoever replies waits ([`catena_core::Policy::replies_unread_max`]).
const REPLIES_UNREAD_MAX: usize = 32_768;

#[derive(Default)]
struct Queue {
    unread: VecDeque<Replied>,
    reader: Option<Waker>,
    /// Nothing more comes.
    over: bool,
}

/// Where what comes is put. Nothing more comes once it is dropped.
pub(crate) struct Sender(Arc<Mutex<Queue>>);

/// Where it is read.
pub(crate) struct Incoming(Arc<Mutex<Queue>>);

/// Both ends.
pub(crate) fn incoming() -> (Sender, Incoming) {
    let queue = Arc::default();
    (Sender(Arc::clone(&queue)), Incoming(queue))
}

impl Sender {
    /// False if there is no room.
    #[must_use]
    pub(crate) fn send(&self, replied: Replied) -> bool {
        let reader = {
            let mut queue = lock(&self.0);
            if queue.unread.len() >= REPLIES_UNREAD_MAX {
                return false;
            }
            queue.unread.push_back(replied);
            queue.reader.take()
        };
        wake(reader);
        true
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let reader = {
            let mut queue = lock(&self.0);
            queue.over = true;
            queue.reader.take()
        };
        wake(reader);
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Incoming {
    /// The next, or `None` when nothing more comes. A reader that finds much lets others have their turn.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Replied>> {
        let turn = ready!(coop::poll_proceed(cx));
        let mut queue = lock(&self.0);
        let next = queue.unread.pop_front();
        if next.is_none() && !queue.over {
            queue.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        turn.made_progress();
        Poll::Ready(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(incoming: &Incoming) -> Poll<Option<Replied>> {
        incoming.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn line() -> Replied {
        Replied::Console(Vec::new())
    }

    #[test]
    fn what_came_before_the_end_is_read_before_it() {
        let (sender, incoming) = incoming();
        assert_eq!(read(&incoming), Poll::Pending);
        assert!(sender.send(line()));
        drop(sender);
        assert_eq!([read(&incoming), read(&incoming)], [Poll::Ready(Some(line())), Poll::Ready(None)]);
    }

    #[test]
    fn what_nobody_reads_is_bounded() {
        let (sender, incoming) = incoming();
        assert!((0..REPLIES_UNREAD_MAX).all(|_| sender.send(line())));
        assert!(!sender.send(line()));
        assert_eq!(read(&incoming), Poll::Ready(Some(line())));
        assert!(sender.send(line()), "what was read makes room");
    }

    #[test]
    fn a_reader_that_waits_is_woken_by_what_comes_and_by_the_end() {
        let woken = std::sync::Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (sender, incoming) = incoming();
        let wait = || incoming.poll_next(&mut Context::from_waker(&waker)).is_pending();
        assert!(wait() && sender.send(line()) && !wait());
        assert!(wait());
        drop(sender);
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::SeqCst), 2);
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
}
