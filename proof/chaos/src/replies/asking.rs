//! The origin of a call, and what it is told.

use std::time::Duration;

use catena::{Ended, Exception, Missing, Reply, ReplySet, RunOptions, from_value, to_value};
use tokio::time::timeout;

use super::{Branch, DROPPED_AFTER_MS_MAX, Draw, serving::target};
use crate::{
    Failure,
    chains::{PATIENCE, TIMEOUT},
    kinds::Kind,
    ledger::now_ms,
    patience::within,
    rng::Rng,
    trials::Origin,
};

/// How a set of replies ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// As the set says, with what is missing.
    Told(Ended, Vec<Missing>),
    /// Its reader left.
    Dropped,
    /// The call did not begin.
    Refused,
    Hung,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) trial: usize,
    pub(super) kind: Kind,
    pub(super) tree: Branch,
    pub(super) ending: Ending,
    /// Replies, in the order in which they came.
    pub(super) came: Vec<usize>,
    /// What the set yielded last, if that was an exception; and whether anything came after it.
    pub(super) why: Option<Exception>,
    pub(super) after_end: usize,
    pub(super) began_ms: u64,
    pub(super) at_ms: u64,
}

pub(crate) async fn one(origin: &Origin<'_>, kind: Kind, rng: Rng, trial: usize) -> Result<Asked, Failure> {
    let mut draw = Draw { rng, kind, trial, nodes: origin.nodes, replies: 0 };
    let tree = draw.branch(0);
    let leaves = (kind == Kind::Dropped).then(|| Duration::from_millis(draw.rng.range(0, DROPPED_AFTER_MS_MAX)));
    let options = RunOptions { timeout: TIMEOUT, ..RunOptions::default() };
    let mut asked = Asked {
        trial,
        kind,
        ending: Ending::Refused,
        came: Vec::new(),
        why: None,
        after_end: 0,
        began_ms: now_ms(),
        at_ms: 0,
        tree,
    };
    let mut came = Vec::new();
    match origin.client.replies_with(&target(&asked.tree), to_value(&asked.tree)?, &options) {
        Ok(set) => asked.read(set, leaves, &mut came).await,
        Err(why) => asked.why = Some(why),
    }
    asked.at_ms = now_ms();
    asked.came = came.iter().map(|reply| from_value(reply.value())).collect::<Result<_, _>>()?;
    Ok(asked)
}

impl Asked {
    async fn read(&mut self, mut set: ReplySet, leaves: Option<Duration>, came: &mut Vec<Reply>) {
        let listening = self.listen(&mut set, came);
        let is_told = match leaves {
            Some(after) => timeout(after, listening).await.is_ok(),
            None => within(TIMEOUT + PATIENCE, listening).await.is_some(),
        };
        if !is_told {
            self.ending = if leaves.is_some() { Ending::Dropped } else { Ending::Hung };
            return;
        }
        self.ending = Ending::Told(set.ended().unwrap_or(Ended::Failure), set.missing().to_vec());
        while set.next().await.is_some() {
            self.after_end += 1;
        }
    }

    /// Until there is no more, or an exception.
    async fn listen(&mut self, set: &mut ReplySet, came: &mut Vec<Reply>) {
        while let Some(reply) = set.next().await {
            match reply {
                Ok(reply) => came.push(reply),
                Err(why) => return self.why = Some(why),
            }
        }
    }
}

/// For whoever looks at a finding.
pub(super) fn shown(missing: &[Missing]) -> Vec<String> {
    missing
        .iter()
        .map(|it| {
            format!("{:?} {} at {:?}: {} ({})", it.branch.to_string(), it.target, it.node, it.why.name, it.why.message)
        })
        .collect()
}
