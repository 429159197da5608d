//! Every way that a few threads can take through the count of clones and the watch for pauses, if at most [`INTERRUPTIONS`] of them are interrupted where they need not wait.

#[path = "../../../../catena/src/replying/bursts.rs"]
mod bursts;
#[path = "../../../../catena/src/replying/counted.rs"]
mod counted;
#[path = "../../src/ground.rs"]
mod ground;
#[path = "../../../../catena/src/replying/mistake.rs"]
mod mistake;

use std::sync::{
    Arc,
    atomic::{AtomicBool as Flag, Ordering::SeqCst},
};

use bursts::Bursts;
use counted::{Counted, Ends};
use loom as explorer;
use loom::{
    model::Builder,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use mistake::Mistake;

/// What was replied under a right, and its ends. All of it relaxed: the count alone has to order it.
#[derive(Clone)]
struct Heard {
    replies: Arc<[AtomicUsize; 3]>,
    ends: Arc<AtomicUsize>,
    /// Replies that ends had before them, in all.
    before_ends: Arc<AtomicUsize>,
}

impl Heard {
    /// One end, after so many replies.
    fn is_exact(&self, replies: usize) -> bool {
        self.ends.load(Ordering::Relaxed) == 1 && self.before_ends.load(Ordering::Relaxed) == replies
    }
}

struct Right(Heard);

impl Right {
    fn reply(&self, number: usize) {
        self.0.replies[number].store(1, Ordering::Relaxed);
    }
}

impl Ends for Right {
    fn end(&self) {
        let before: usize = self.0.replies.iter().map(|reply| reply.load(Ordering::Relaxed)).sum();
        self.0.before_ends.fetch_add(before, Ordering::Relaxed);
        self.0.ends.fetch_add(1, Ordering::Relaxed);
    }
}

fn right() -> (Counted<Right>, Heard) {
    let none = || Arc::new(AtomicUsize::new(0));
    let replies = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
    let heard = Heard { replies, ends: none(), before_ends: none() };
    (Counted::new(Right(heard.clone())), heard)
}

/// A function that starts a thread, which starts another, and returns when it likes: the paper's Figure 4.
fn a_thread_starts_a_thread() -> bool {
    let (context, heard) = right();
    let first = context.clone();
    let first = thread::spawn(move || {
        let second = first.clone();
        let second = thread::spawn(move || second.reply(1));
        first.reply(0);
        drop(first);
        second.join().expect("it ended well");
    });
    context.reply(2);
    drop(context);
    first.join().expect("it ended well");
    heard.is_exact(3)
}

/// Two threads that end at once, after the function.
fn two_end_at_once() -> bool {
    let (context, heard) = right();
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let context = context.clone();
            thread::spawn(move || context.reply(number))
        })
        .collect();
    drop(context);
    threads.into_iter().for_each(|thread| thread.join().expect("it ended well"));
    heard.is_exact(2)
}

/// Two that reply; whoever has to watch for the pause sends what waits.
fn replies_wait_for_a_pause() -> bool {
    let (bursts, waiting) = (Arc::new(Bursts::new()), Arc::new(Mutex::new(0_usize)));
    let reply = {
        let (bursts, waiting) = (Arc::clone(&bursts), Arc::clone(&waiting));
        move || {
            let first = {
                let mut waiting = waiting.lock().expect("nobody panicked");
                *waiting += 1;
                *waiting == 1
            };
            if bursts.one_waits(first) {
                bursts.over(|| *waiting.lock().expect("nobody panicked") = 0);
            }
        }
    };
    let other = thread::spawn(reply.clone());
    reply();
    other.join().expect("it ended well");
    bursts.so_far() == 2 && *waiting.lock().expect("nobody panicked") == 0
}

/// Without a bound the larger scene takes minutes. Every mistake is found with it.
const INTERRUPTIONS: usize = 3;

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(INTERRUPTIONS);
    builder.check(scene);
}

/// Each says whether it went as it should.
const SCENES: [fn() -> bool; 3] = [a_thread_starts_a_thread, two_end_at_once, replies_wait_for_a_pause];

#[test]
fn every_way_ends_once_and_after_all_replies() {
    SCENES.into_iter().for_each(|scene| explore(move || assert!(scene())));
}

#[test]
fn each_mistake_is_found() {
    for mistake in [Mistake::CloneNotCounted, Mistake::EndSeesLess, Mistake::EndToldTwice, Mistake::SentBeforeOver] {
        ground::make(mistake);
        // Without a panic, which would drop what loom keeps in the middle of a way.
        let found = Arc::new(Flag::new(false));
        for scene in SCENES {
            let found = Arc::clone(&found);
            explore(move || {
                found.fetch_or(!scene(), SeqCst);
            });
        }
        assert!(found.load(SeqCst), "nothing finds {mistake:?}");
    }
}
