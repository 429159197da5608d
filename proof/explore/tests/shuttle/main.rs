//! Thousands of drawn ways through whole calls: threads, tasks, replies that wait for others, and tasks that watch for pauses.

#[path = "../../../../catena/src/replying/bursts.rs"]
mod bursts;
#[path = "../../../../catena/src/replying/counted.rs"]
mod counted;
#[path = "../../src/ground.rs"]
mod ground;
#[path = "../../../../catena/src/replying/mistake.rs"]
mod mistake;

use std::sync::atomic::{AtomicBool as Flag, Ordering::SeqCst};

use bursts::Bursts;
use counted::{Counted, Ends};
use mistake::Mistake;
use shuttle as explorer;
use shuttle::{
    future,
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

/// Calls that a node answers at once in a way.
const CALLS: usize = 2;

/// Ways to go through it.
const WAYS: usize = 1_000;

/// As many changes of thread as make a way: most mistakes need few, at the right places.
const CHANGES: usize = 3;

/// What its machines know of one right.
#[derive(Clone, Default)]
struct Known {
    waiting: Vec<u32>,
    sent: Vec<u32>,
    ends: u32,
    after_the_end: u32,
}

/// A node's shell with as much of the machines as replies need, behind one lock as these are.
struct Shell {
    rights: Mutex<Vec<Known>>,
    bursts: Bursts,
    tasks: Mutex<Vec<future::JoinHandle<()>>>,
}

impl Shell {
    fn new() -> Self {
        Self { rights: Mutex::new(vec![Known::default(); CALLS]), bursts: Bursts::new(), tasks: Mutex::default() }
    }

    /// Starts a task that nobody waits for, but for the test at its end.
    fn spawn(&self, task: impl Future<Output = ()> + 'static + Send) {
        self.tasks.lock().expect("nobody panicked").push(future::spawn(task));
    }

    /// Until nothing more can happen.
    fn run_out(&self) {
        loop {
            let task = self.tasks.lock().expect("nobody panicked").pop();
            let Some(task) = task else { return };
            future::block_on(task).expect("nobody aborts it");
        }
    }

    fn rights(&self) -> MutexGuard<'_, Vec<Known>> {
        self.rights.lock().expect("nobody panicked")
    }

    fn reply(self: &Arc<Self>, call: usize, value: u32) {
        let first = {
            let known = &mut self.rights()[call];
            known.after_the_end += known.ends;
            known.waiting.push(value);
            known.waiting.len() == 1
        };
        if self.bursts.one_waits(first) {
            let shell = Arc::clone(self);
            self.spawn(async move { shell.watch().await });
        }
    }

    fn let_go(&self, call: usize) {
        self.rights()[call].ends += 1;
    }

    async fn watch(&self) {
        let mut before = 0;
        for _ in 0..3 {
            future::yield_now().await;
            let replies = self.bursts.so_far();
            if replies == before {
                break;
            }
            before = replies;
        }
        self.bursts.over(|| self.rights().iter_mut().for_each(|known| known.sent.append(&mut known.waiting)));
    }
}

struct Held(Arc<Shell>, usize);

impl Ends for Held {
    fn end(&self) {
        let (shell, call) = (Arc::clone(&self.0), self.1);
        self.0.spawn(async move { shell.let_go(call) });
    }
}

type Context = Counted<Held>;

/// A function of the service: two threads, of which one starts a task, and a task, none of which it waits for.
fn serve(context: Context) -> Vec<thread::JoinHandle<()>> {
    let reply = |context: &Context, value| context.0.reply(context.1, value);
    let (nested, alone, task) = (context.clone(), context.clone(), context.clone());
    let nested = thread::spawn(move || {
        let inner = nested.clone();
        nested.0.spawn(async move {
            future::yield_now().await;
            reply(&inner, 0);
        });
        reply(&nested, 1);
    });
    let alone = thread::spawn(move || (2..4).for_each(|value| reply(&alone, value)));
    context.0.spawn(async move {
        reply(&task, 4);
        future::yield_now().await;
        reply(&task, 5);
    });
    reply(&context, 6);
    drop(context);
    vec![nested, alone]
}

/// Whether each call had each of its replies once, then its end once, and nothing after.
fn calls() -> bool {
    let shell = Arc::new(Shell::new());
    let functions: Vec<_> = (0..CALLS)
        .map(|call| {
            let context = Counted::new(Held(Arc::clone(&shell), call));
            thread::spawn(move || serve(context))
        })
        .collect();
    for function in functions {
        function.join().expect("it ended well").into_iter().for_each(|thread| thread.join().expect("it ended well"));
    }
    shell.run_out();
    shell.rights().iter().all(|known| {
        let mut sent = known.sent.clone();
        sent.sort_unstable();
        sent == [0, 1, 2, 3, 4, 5, 6] && known.ends == 1 && known.after_the_end == 0
    })
}

fn explore(way: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(way.clone(), WAYS);
    shuttle::check_pct(way, WAYS, CHANGES);
}

#[test]
fn every_drawn_way_ends_once_and_after_all_replies() {
    explore(|| assert!(calls()));
}

/// Shuttle lets every thread see all that was done before, so [`Mistake::EndSeesLess`] is loom's to find.
#[test]
fn each_mistake_is_found() {
    for mistake in [Mistake::CloneNotCounted, Mistake::EndToldTwice, Mistake::SentBeforeOver] {
        ground::make(mistake);
        let found = std::sync::Arc::new(Flag::new(false));
        let finds = std::sync::Arc::clone(&found);
        explore(move || {
            finds.fetch_or(!calls(), SeqCst);
        });
        assert!(found.load(SeqCst), "nothing finds {mistake:?}");
    }
}
