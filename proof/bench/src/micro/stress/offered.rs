//! Calls that are offered to a server: as many as it takes, to find its limit; or so many a second, whether it keeps up or not.

use std::time::Duration;

use catena::{Client, RunOptions, Value, exceptions, to_value};
use tokio::time::{Instant, sleep_until};

use super::service::{AT_ONCE, Job};
use crate::Failure;

/// Calls under way when a limit is looked for: there are always more than the server does at a time.
const LANES: usize = 2 * AT_ONCE;
/// After so long a call is given up. What a server takes on is done much sooner.
const CALL_MAX: Duration = Duration::from_secs(10);

/// Whom to call, and for what.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) job: Job,
}

/// What became of the calls that were offered.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) calls: usize,
    pub(super) refused: usize,
    /// Ended while calls were still offered, so that what is done of a backlog does not count.
    pub(super) in_time: usize,
    /// Of each call that has ended with all of its replies: milliseconds after it was due, and the mean of its replies' arrivals.
    pub(super) latency_ms: Vec<f64>,
    pub(super) aat_ms: Vec<f64>,
}

enum Ended {
    Done { at: Instant, aat_ms: f64 },
    Refused,
    Failed,
}

impl Target {
    /// One call, so that what is made once is there.
    pub(super) async fn warm(&self) -> Result<(), Failure> {
        self.call(Instant::now()).await.map(drop)
    }

    /// Calls done in a second, when there is always one more to do: begun within `window`, and all of them done.
    pub(super) async fn limit(&self, window: Duration) -> Result<f64, Failure> {
        let began = Instant::now();
        let lane = |_| {
            let target = self.clone();
            tokio::spawn(async move {
                let mut done = 0_usize;
                while began.elapsed() < window {
                    done += usize::from(matches!(target.call(Instant::now()).await?, Ended::Done { .. }));
                }
                Ok::<_, Failure>(done)
            })
        };
        let mut done = 0;
        for lane in (0..LANES).map(lane).collect::<Vec<_>>() {
            done += lane.await??;
        }
        match done {
            0 => Err(format!("{} did nothing in {:?}", self.name, began.elapsed()).into()),
            done => Ok(done as f64 / began.elapsed().as_secs_f64()),
        }
    }

    /// So many calls a second, at times drawn from `seed` (a Poisson process), however the server fares.
    pub(super) async fn offer(&self, per_s: f64, window: Duration, seed: u64) -> Result<Offered, Failure> {
        let (began, mut draws) = (Instant::now(), Draws(seed));
        let (mut after, mut calls) = (draws.gap_s(per_s), Vec::new());
        while after < window.as_secs_f64() {
            let due = began + Duration::from_secs_f64(after);
            sleep_until(due).await;
            let target = self.clone();
            calls.push((due, tokio::spawn(async move { target.call(due).await })));
            after += draws.gap_s(per_s);
        }
        let mut offered = Offered { calls: calls.len(), ..Offered::default() };
        for (due, call) in calls {
            match call.await?? {
                Ended::Done { at, aat_ms } => {
                    offered.in_time += usize::from(at < began + window);
                    offered.latency_ms.push(ms(at - due));
                    offered.aat_ms.push(aat_ms);
                }
                Ended::Refused => offered.refused += 1,
                Ended::Failed => {}
            }
        }
        Ok(offered)
    }

    async fn call(&self, due: Instant) -> Result<Ended, Failure> {
        let options = RunOptions { timeout: CALL_MAX, ..RunOptions::default() };
        let params: Value = to_value(&self.job)?;
        let mut set = match self.client.replies_with(&self.name, params, &options) {
            Ok(set) => set,
            Err(why) => return Ok(Ended::of(&why.name)),
        };
        let (mut came, mut arrived_ms) = (0, 0.0);
        while let Some(reply) = set.next().await {
            match reply {
                Ok(_) => (came, arrived_ms) = (came + 1, arrived_ms + ms(due.elapsed())),
                Err(why) => return Ok(Ended::of(&why.name)),
            }
        }
        let of = self.job.parts;
        match came == of {
            true => Ok(Ended::Done { at: Instant::now(), aat_ms: arrived_ms / f64::from(of) }),
            false => Err(format!("{}: {came} replies of {of}, and no word of the others", self.name).into()),
        }
    }
}

impl Ended {
    fn of(name: &str) -> Self {
        if name == exceptions::OVERLOADED { Self::Refused } else { Self::Failed }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Drawn from a seed, so that both kinds of server are offered the same calls (splitmix64).
struct Draws(u64);

impl Draws {
    fn gap_s(&mut self, per_s: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // In (0, 1].
        let drawn = (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -drawn.ln() / per_s
    }
}
