//! The queue of a reply set: what has arrived and has not been read.
//!
//! Each chain has one, including the thousands that only wait, so an empty queue must be small: a channel that allocates in blocks would not be. What the
//! queue holds is charged to the node's memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker, ready},
};

use catena_core::Replied;
use catena_net::{Lease, MemoryBudget};
use catena_wire::Outcome;
use tokio::task::coop;

use crate::shell::lock;

/// Answers held for a reply set whose reader does not read; beyond, the set ends as `Overloaded`. Replies to a call never reach this bound, because their
/// senders wait before that ([`catena_core::Policy::replies_unread_max`]).
const REPLIES_UNREAD_MAX: usize = 32_768;

struct Queue {
    unread: VecDeque<Replied>,
    memory: Lease,
    reader: Option<Waker>,
    /// Nothing more comes.
    over: bool,
}

/// The sending half. Once it is dropped, the queue ends.
pub(crate) struct Sender(Arc<Mutex<Queue>>);

/// The receiving half.
pub(crate) struct Incoming(Arc<Mutex<Queue>>);

/// Makes both halves.
pub(crate) fn incoming(memory: &MemoryBudget) -> (Sender, Incoming) {
    let queue = Queue { unread: VecDeque::new(), memory: memory.none(), reader: None, over: false };
    let queue = Arc::new(Mutex::new(queue));
    (Sender(Arc::clone(&queue)), Incoming(queue))
}

impl Queue {
    /// Charges one more item to the node's memory. Where there is none, an item that a chain sends before its end is refused. Replies to a call are not, since
    /// the state machine has admitted them already, nor is an end, which is the last item.
    fn charge(&mut self, replied: &Replied) -> bool {
        let bytes = self.memory.bytes().saturating_add(bytes_of(replied));
        match replied {
            Replied::Partial(_) | Replied::Console(_) | Replied::Told(_) => self.memory.resize(bytes).is_ok(),
            Replied::Replies(_) | Replied::Over { .. } | Replied::End { .. } => {
                self.memory.record(bytes);
                true
            }
        }
    }

    fn pop(&mut self) -> Option<Replied> {
        let next = self.unread.pop_front()?;
        self.memory.record(self.memory.bytes().saturating_sub(bytes_of(&next)));
        Some(next)
    }
}

/// How many bytes an item is charged: its values and log lines.
fn bytes_of(replied: &Replied) -> u64 {
    let bytes = match replied {
        Replied::Partial(value) | Replied::End { outcome: Outcome::Done(value), .. } => value.len_bytes(),
        Replied::Replies(values) => values.iter().map(catena_wire::Value::len_bytes).sum(),
        Replied::Console(lines) => lines.iter().map(|line| line.text.len()).sum(),
        Replied::Told(_) | Replied::Over { .. } | Replied::End { .. } => 0,
    };
    bytes as u64
}

impl Sender {
    /// False if there is no room.
    #[must_use]
    pub(crate) fn send(&self, replied: Replied) -> bool {
        let reader = {
            let mut queue = lock(&self.0);
            if queue.unread.len() >= REPLIES_UNREAD_MAX || !queue.charge(&replied) {
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
    /// The next item, or `None` after the end. Uses the task's cooperative budget, so that a reader that finds many items lets other tasks run.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Replied>> {
        let turn = ready!(coop::poll_proceed(cx));
        let mut queue = lock(&self.0);
        let next = queue.pop();
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
    use catena_wire::Value;

    fn budget() -> MemoryBudget {
        MemoryBudget::new(1_000)
    }

    fn read(incoming: &Incoming) -> Poll<Option<Replied>> {
        incoming.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn line() -> Replied {
        Replied::Console(Vec::new())
    }

    #[test]
    fn what_came_before_the_end_is_read_before_it() {
        let (sender, incoming) = incoming(&budget());
        assert_eq!(read(&incoming), Poll::Pending);
        assert!(sender.send(line()));
        drop(sender);
        assert_eq!([read(&incoming), read(&incoming)], [Poll::Ready(Some(line())), Poll::Ready(None)]);
    }

    #[test]
    fn what_nobody_reads_is_bounded() {
        let (sender, incoming) = incoming(&budget());
        assert!((0..REPLIES_UNREAD_MAX).all(|_| sender.send(line())));
        assert!(!sender.send(line()));
        assert_eq!(read(&incoming), Poll::Ready(Some(line())));
        assert!(sender.send(line()), "what was read makes room");
    }

    #[test]
    fn what_is_unread_is_charged_to_the_nodes_memory_and_refused_where_there_is_none() {
        let (budget, partial) = (budget(), || Replied::Partial(Value::encode(&"x".repeat(400))));
        let (sender, incoming) = incoming(&budget);
        assert!(sender.send(partial()) && sender.send(partial()) && !sender.send(partial()));
        assert!(budget.used() > 800);
        assert_eq!(read(&incoming), Poll::Ready(Some(partial())));
        assert!(budget.used() < 800 && sender.send(partial()), "what was read makes room");
        let outcome = Outcome::Done(Value::encode(&"x".repeat(400)));
        let end = Replied::End { outcome, last_step: 1, path: Vec::new(), trace: Vec::new(), recording: None };
        assert!(sender.send(end), "an end always comes");
        drop((sender, incoming));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_reader_that_waits_is_woken_by_what_comes_and_by_the_end() {
        let woken = std::sync::Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (sender, incoming) = incoming(&budget());
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
