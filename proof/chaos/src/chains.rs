//! Runs the chains, so many at one time, and keeps what their origin was told.

use std::time::Duration;

use catena::{Client, Code, Exception, ReplySet, RunOptions, Value, from_value, to_value};
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use crate::{
    Failure,
    kinds::{self, Kind},
    ledger::now_ms,
    plan::{Plan, TAKE},
    progress::Progress,
};

/// What a chain is given.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(12);
/// How much longer than that an end may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a chain ended, as its origin was told.
#[derive(Debug)]
pub(crate) enum Ending {
    /// With how many effects.
    Answered(usize),
    /// Before the effect of its step.
    Failed(Exception),
    /// After its step.
    Unknown(Exception),
    /// It did not.
    Hung,
}

pub(crate) struct Ended {
    pub(crate) chain: usize,
    pub(crate) kind: Kind,
    pub(crate) plan: Plan,
    pub(crate) ending: Ending,
    /// When that was told.
    pub(crate) at_ms: u64,
}

/// What the chains are drawn by.
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) chains: usize,
    pub(crate) nodes: usize,
    pub(crate) in_flight: usize,
    pub(crate) kinds: Vec<Kind>,
}

pub(crate) async fn run(client: &Client, run: &Run) -> Result<Vec<Ended>, Failure> {
    let code = client.javascript("take.js", TAKE).await?;
    let mut progress = Progress::new(run.chains);
    let one = |chain| one(client, &code, run, chain);
    let ending = stream::iter((0..run.chains).map(one)).buffer_unordered(run.in_flight);
    let ended: Vec<_> = ending.inspect(|_| progress.one_more()).collect().await;
    ended.into_iter().collect()
}

async fn one(client: &Client, code: &Code, run: &Run, chain: usize) -> Result<Ended, Failure> {
    let (kind, plan) = kinds::draw(run.seed, chain, run.nodes, &run.kinds);
    let options = RunOptions { timeout: TIMEOUT, compose: !plan.apart, mode: plan.mode, ..RunOptions::default() };
    let ending = match client.run_with(code, &to_value(&plan.steps)?, &options) {
        Ok(mut replies) => match last(&mut replies, plan.cancelled_after).await {
            Some(Ok(value)) => Ending::Answered(from_value(&value)?),
            Some(Err(why)) => failed(why),
            None => Ending::Hung,
        },
        Err(why) => failed(why),
    };
    Ok(Ended { chain, kind, plan, ending, at_ms: now_ms() })
}

const fn failed(why: Exception) -> Ending {
    if why.unknown { Ending::Unknown(why) } else { Ending::Failed(why) }
}

/// The end, if it comes.
async fn last(replies: &mut ReplySet, cancelled_after: Option<Duration>) -> Option<Result<Value, Exception>> {
    if let Some(after) = cancelled_after {
        if let Ok(ended) = timeout(after, replies.last()).await {
            return Some(ended);
        }
        replies.cancel();
    }
    timeout(TIMEOUT + PATIENCE, replies.last()).await.ok()
}
