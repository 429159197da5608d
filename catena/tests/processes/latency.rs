//! How long a good chain takes while somebody attacks, beside how long it takes otherwise: figures that `make hostile` gathers, and on which no test depends.
//! And the most memory that the node under attack has held, which is bounded in every test.

use std::{
    future::Future,
    sync::LazyLock,
    time::{Duration, Instant},
};

use rustix::process::setpriority_process;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

use crate::process::resident_bytes_max;

const QUIET_CHAINS: usize = 40;
/// What a node may hold beyond what it held before, whatever is done to it: its guests have half of a budget of 1 GiB, and the allocator keeps some.
const MORE_BYTES_MAX: u64 = (512 << 20) + (128 << 20);

/// The threads of all attackers. Attackers are elsewhere, and what they compute takes no processor from whom they attack: so where figures are taken, theirs has
/// the lowest priority. Where none are, it has that of the others: on a busy machine the lowest gets next to nothing, and an attack would not end.
static ATTACKERS: LazyLock<Runtime> = LazyLock::new(|| {
    // On Linux, of the calling thread alone.
    let step_back = || {
        if std::env::var_os(FIGURES).is_some() {
            setpriority_process(None, PRIORITY_LOWEST).expect("a lower priority is always allowed");
        }
    };
    Builder::new_multi_thread().worker_threads(2).on_thread_start(step_back).enable_all().build().expect("threads")
});
const PRIORITY_LOWEST: i32 = 19;
/// `make hostile` sets it.
const FIGURES: &str = "CATENA_HOSTILE_FIGURES";

/// How long a good chain takes when nobody attacks.
pub(crate) struct Quiet {
    median: Duration,
    /// The process that is to be attacked, and the most memory that it held before.
    node: u32,
    held_bytes: u64,
}

impl Quiet {
    pub(crate) async fn of(node: u32, mut good: impl AsyncFnMut()) -> Self {
        let median = median(some(&mut good).await);
        Self { median, node, held_bytes: resident_bytes_max(node) }
    }

    /// Good chains one after the other for as long as the attack lasts, one at least. Returns what the attack came to. Its own code runs on other threads: the
    /// good client does not wait for its attackers' turns. A good chain that fails ends the attack.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        attack: &str,
        attacking: impl Future<Output = T> + Send + 'static,
        mut good: impl AsyncFnMut(),
    ) -> T {
        let mut attackers = JoinSet::new();
        attackers.spawn_on(attacking, ATTACKERS.handle());
        let mut took = Vec::new();
        loop {
            took.push(timed(&mut good).await);
            if let Some(ended) = attackers.try_join_next() {
                self.say(attack, took);
                return ended.unwrap();
            }
        }
    }

    /// As many good chains as without, while what was done to the node lasts.
    pub(crate) async fn under(&self, attack: &str, mut good: impl AsyncFnMut()) {
        let took = some(&mut good).await;
        self.say(attack, took);
    }

    fn say(&self, attack: &str, took: Vec<Duration>) {
        let (chains, quiet_us) = (took.len(), self.median.as_micros());
        let (beside_us, held) = (median(took).as_micros(), resident_bytes_max(self.node));
        let mib = held >> 20;
        println!("beside {attack}: chains {chains}, quiet_us {quiet_us}, beside_us {beside_us}, memory_mib {mib}");
        let more = held - self.held_bytes;
        assert!(more < MORE_BYTES_MAX, "beside {attack}: the node held {} MiB more", more >> 20);
    }
}

async fn some(good: &mut impl AsyncFnMut()) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..QUIET_CHAINS {
        took.push(timed(good).await);
    }
    took
}

async fn timed(good: &mut impl AsyncFnMut()) -> Duration {
    let began = Instant::now();
    good().await;
    began.elapsed()
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}
