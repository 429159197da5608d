//! Runs chains, and keeps what their origin was told.

use std::time::Duration;

use catena::{Exception, Reply, ReplySet, RunOptions, Value, from_value, to_value};
use tokio::time::timeout;

use crate::{Failure, kinds::Kind, ledger::now_ms, patience::within, plan::Plan, trials::Origin};

/// The time limit of a chain.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(12);
/// How long after the time limit an end may still arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How a chain ended, as its origin was told.
#[derive(Debug)]
pub(crate) enum Ending {
    /// With the number of effects that the function counted.
    Answered(usize),
    /// Before the effect of its step.
    Failed(Exception),
    /// After its step.
    Unknown(Exception),
    /// No end arrived.
    Hung,
}

pub(crate) struct Ended {
    pub(crate) chain: usize,
    pub(crate) kind: Kind,
    pub(crate) plan: Plan,
    pub(crate) ending: Ending,
    /// The chain, as services are told of it.
    pub(crate) id: String,
    /// Intermediate answers: indices of effects.
    pub(crate) answers: Vec<usize>,
    pub(crate) began_ms: u64,
    /// When its end was told.
    pub(crate) at_ms: u64,
}

/// Runs one chain to its end.
pub(crate) async fn one(origin: &Origin<'_>, kind: Kind, chain: usize, plan: Plan) -> Result<Ended, Failure> {
    let enough = RunOptions { timeout: TIMEOUT, compose: !plan.detached, mode: plan.mode, ..RunOptions::default() };
    let hops_max = if plan.short_of_hops { plan.input.steps.len() as u32 - 1 } else { enough.hops_max };
    let options = RunOptions { hops_max, ..enough };
    let (began_ms, mut id, mut answers) = (now_ms(), String::new(), Vec::new());
    let ending = match origin.client.run_with(&origin.take, &to_value(&plan.input)?, &options) {
        Ok(mut replies) => {
            id = ReplySet::chain(&replies).to_string();
            match last(&mut replies, plan.cancelled_after, &mut answers).await {
                Some(Ok(value)) => Ending::Answered(from_value(&value)?),
                Some(Err(why)) => failed(why),
                None => Ending::Hung,
            }
        }
        Err(why) => failed(why),
    };
    let answers = answers.iter().map(from_value).collect::<Result<_, _>>()?;
    Ok(Ended { chain, kind, plan, ending, id, answers, began_ms, at_ms: now_ms() })
}

const fn failed(why: Exception) -> Ending {
    if why.unknown { Ending::Unknown(why) } else { Ending::Failed(why) }
}

/// The end, if it comes, and the answers before it.
async fn last(
    replies: &mut ReplySet,
    cancelled_after: Option<Duration>,
    answers: &mut Vec<Value>,
) -> Option<Result<Value, Exception>> {
    if let Some(after) = cancelled_after {
        if let Ok(ended) = timeout(after, listen(replies, answers)).await {
            return ended;
        }
        replies.cancel();
    }
    within(TIMEOUT + PATIENCE, listen(replies, answers)).await.flatten()
}

async fn listen(replies: &mut ReplySet, answers: &mut Vec<Value>) -> Option<Result<Value, Exception>> {
    loop {
        match replies.next().await? {
            Ok(Reply::Partial(value)) => answers.push(value),
            Ok(Reply::Last(value)) => return Some(Ok(value)),
            Err(why) => return Some(Err(why)),
        }
    }
}
