//! How long a good chain takes while somebody attacks, beside how long it takes otherwise: a figure that `make hostile` gathers, and on which no test depends.

use std::{
    future::Future,
    time::{Duration, Instant},
};

const QUIET_CHAINS: usize = 40;

/// How long a good chain takes when nobody attacks, the median.
pub(crate) struct Quiet(Duration);

impl Quiet {
    pub(crate) async fn of(mut good: impl AsyncFnMut()) -> Self {
        let mut took = Vec::new();
        for _ in 0..QUIET_CHAINS {
            took.push(timed(&mut good).await);
        }
        Self(median(took))
    }

    /// Good chains one after the other for as long as the attack lasts, one at least. Returns what the attack came to.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        attack: &str,
        attacking: impl Future<Output = T> + Send + 'static,
        mut good: impl AsyncFnMut(),
    ) -> T {
        let attacking = tokio::spawn(attacking);
        let mut took = vec![timed(&mut good).await];
        while !attacking.is_finished() {
            took.push(timed(&mut good).await);
        }
        let (chains, quiet_us) = (took.len(), self.0.as_micros());
        println!("beside {attack}: chains {chains}, quiet_us {quiet_us}, beside_us {}", median(took).as_micros());
        attacking.await.unwrap()
    }
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
