//! The exact end, over real nodes: calls with drawn trees of threads, tasks and delegations. `make exact` makes ten million of them; here are a few
//! thousand. Quatrain (section 3.2.1) found its naive counts wrong once in "tens of thousands of normal calls".
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use catena::{Client, Context, Ended, Node, Place, Service, ServiceError};
use serde::{Deserialize, Serialize};

/// How often a long run says how far it is.
const TOLD_EVERY: u64 = 100_000;
/// Calls, unless `CATENA_EXACT_CALLS` says otherwise; `CATENA_EXACT_FIRST` is the seed of the first, so that a long run can be made in parts.
const CALLS: u64 = 3_000;
const AT_ONCE: u64 = 32;
const NODES: u64 = 4;
/// An end that comes so long after the last reply comes too late, in a long run, which has its machine to itself; one that takes so long never comes.
const LATE: Duration = Duration::from_secs(5);
const NEVER: Duration = Duration::from_secs(50);

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// What a function does.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Tree {
    replies: u64,
    /// Tasks that it starts, and how often each replies.
    tasks: Vec<u64>,
    /// The same with threads.
    threads: Vec<u64>,
    /// The nodes to which it delegates, and what they do.
    delegates: Vec<(u64, Tree)>,
}

impl Tree {
    fn draw(rng: &mut Rng, depth: u64) -> Self {
        let mut few = |bound| (0..rng.below(bound)).map(|_| rng.below(3)).collect();
        let (tasks, threads) = (few(4), few(2));
        let delegates = if depth == 0 { 0 } else { rng.below(3) };
        let replies = rng.below(3);
        let delegates = (0..delegates).map(|_| (rng.below(NODES), Self::draw(rng, depth - 1))).collect();
        // Threads are dear: one call in eight has some.
        let threads = if rng.below(8) == 0 { threads } else { Vec::new() };
        Self { replies, tasks, threads, delegates }
    }

    fn all(&self) -> u64 {
        let own = self.replies + self.tasks.iter().chain(&self.threads).sum::<u64>();
        own + self.delegates.iter().map(|(_, tree)| tree.all()).sum::<u64>()
    }
}

async fn go(context: Context, tree: Tree) -> Result<(), ServiceError> {
    for replies in tree.threads {
        let context = context.clone();
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let _runtime = runtime.enter();
            (0..replies).for_each(|number| context.preturn_blocking(&number).expect("the caller waits"));
        });
    }
    for replies in tree.tasks {
        let context = context.clone();
        tokio::spawn(async move {
            for number in 0..replies {
                context.preturn(&number).await.expect("the caller waits");
            }
        });
    }
    for (node, tree) in tree.delegates {
        context.delegate(&format!("n{node}/go"), &tree)?;
    }
    for number in 0..tree.replies {
        context.preturn(&number).await?;
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    replies: AtomicU64,
    early: AtomicU64,
    late: AtomicU64,
    never: AtomicU64,
    wrong: AtomicU64,
}

impl Tally {
    async fn call(&self, client: &Client, seed: u64) {
        let mut rng = Rng(seed);
        let tree = Tree::draw(&mut rng, 3);
        let mut set = client.replies(&format!("n{}/go", rng.below(NODES)), &tree).await.expect("the call begins");
        let (mut came, mut last) = (0, Instant::now());
        let read = async {
            while let Some(reply) = set.next().await {
                came += u64::from(reply.is_ok());
                last = Instant::now();
            }
        };
        let ended = tokio::time::timeout(NEVER, read).await.is_ok();
        let count = |counter: &AtomicU64, is: bool| counter.fetch_add(u64::from(is), Ordering::Relaxed);
        count(&self.never, !ended);
        count(&self.early, ended && came < tree.all());
        count(&self.wrong, came > tree.all() || (ended && set.ended() != Some(Ended::Complete)));
        let after = last.elapsed();
        count(&self.late, ended && after > LATE);
        if !ended || after > LATE || came != tree.all() {
            println!("seed {seed}: {came} of {} replies, {:?} {after:?} after the last", tree.all(), set.ended());
        }
        self.replies.fetch_add(came, Ordering::Relaxed);
    }
}

async fn nodes() -> (Vec<Node>, Client) {
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..NODES {
        let service = Service::new(format!("n{number}")).replies("go", go);
        let mut builder = Node::builder(service.name()).listen("127.0.0.1:0").service(service.clone());
        if let Some(first) = nodes.first() {
            builder = builder.join(Place::new(first.address().unwrap()));
        }
        nodes.push(builder.start().await.unwrap());
    }
    let join = Place::new(nodes[0].address().unwrap());
    let client = Client::builder("client").join(join).connect().await.unwrap();
    (nodes, client)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_ends_exactly_when_its_last_reply_has_come() {
    let long = number("CATENA_EXACT_CALLS");
    let calls = long.unwrap_or(CALLS);
    let first = number("CATENA_EXACT_FIRST").unwrap_or(0);
    let (_nodes, client) = nodes().await;
    let (tally, next) = (Arc::new(Tally::default()), Arc::new(AtomicU64::new(first)));
    let began = Instant::now();
    let worker = || {
        let (tally, next, client) = (Arc::clone(&tally), Arc::clone(&next), client.clone());
        tokio::spawn(async move {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + calls {
                    return;
                }
                tally.call(&client, seed).await;
                if (seed + 1 - first).is_multiple_of(TOLD_EVERY) {
                    println!("{} of {calls} calls", seed + 1 - first);
                }
            }
        })
    };
    let workers: Vec<_> = (0..AT_ONCE).map(|_| worker()).collect();
    for worker in workers {
        worker.await.expect("no worker panics");
    }
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (early, late, never, wrong) = (of(&tally.early), of(&tally.late), of(&tally.never), of(&tally.wrong));
    let result = format!(
        "{{\"first_seed\": {first}, \"calls\": {calls}, \"replies\": {}, \"seconds\": {}, \"ended_too_early\": {early}, \"ended_too_late\": {late}, \"never_ended\": {never}, \"otherwise_wrong\": {wrong}, \"exact_end_wrong\": {}}}",
        of(&tally.replies),
        began.elapsed().as_secs(),
        early + late + never + wrong
    );
    println!("{result}");
    if let Ok(path) = std::env::var("CATENA_EXACT_RESULT") {
        std::fs::write(path, result + "\n").expect("the result can be written");
    }
    assert_eq!(early + never + wrong, 0, "of {calls} calls");
    assert!(long.is_none() || late == 0, "{late} ends of {calls} calls too late");
}
