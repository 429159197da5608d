//! Runs trials of all kinds, so many at one time, and keeps what their origin was told until it is held against what took place.

use catena::{Client, Code};
use clap::ValueEnum;
use futures_util::{StreamExt, stream};

use crate::{
    Failure, Run, blobs, chains,
    kinds::{self, Kind},
    ledger::Effects,
    locks::{self, Holders},
    messages,
    outages::Outages,
    plan::TAKE,
    progress::Progress,
    replies, segments,
    tally::Tally,
};

/// What has ended, and can be audited.
pub(crate) trait Trial {
    fn kind(&self) -> Kind;

    /// Counts it; says what is wrong with it, if anything is.
    fn hold(&self, effects: &Effects, outages: &Outages) -> (Tally, Option<String>);
}

/// Whoever begins them, and what they have in common.
pub(crate) struct Origin<'r> {
    pub(crate) client: &'r Client,
    pub(crate) nodes: usize,
    /// The function of chains with effects.
    pub(crate) take: Code,
    /// The function of chains with blobs.
    pub(crate) carry: Code,
    /// Of the locks.
    pub(crate) holders: Holders,
}

pub(crate) async fn run(client: &Client, run: &Run) -> Result<Vec<Box<dyn Trial>>, Failure> {
    let take = client.javascript("take.js", TAKE).await?;
    let carry = client.javascript("carry.js", blobs::CARRY).await?;
    let origin = Origin { client, nodes: run.nodes, take, carry, holders: Holders::default() };
    let mut progress = Progress::new(run.chains);
    let kinds = run.kinds();
    let one = |trial| one(&origin, run.seed, kinds, trial);
    let ending = stream::iter((0..run.chains).map(one)).buffer_unordered(run.in_flight);
    let ended: Vec<_> = ending.inspect(|_| progress.one_more()).collect().await;
    ended.into_iter().collect()
}

async fn one(origin: &Origin<'_>, seed: u64, kinds: &[Kind], trial: usize) -> Result<Box<dyn Trial>, Failure> {
    let (kind, rng) = kinds::draw(seed, trial, kinds);
    Ok(match kind {
        Kind::Delegated | Kind::Nested | Kind::Dropped => Box::new(replies::one(origin, kind, rng, trial).await?),
        Kind::Blob => Box::new(blobs::one(origin, rng, trial).await?),
        Kind::Segment => Box::new(segments::one(origin, rng, trial).await),
        Kind::Lock => Box::new(locks::one(origin, rng, trial).await),
        Kind::Message => Box::new(messages::one(origin, rng, trial).await),
        _ => Box::new(chains::one(origin, kind, trial, kinds::plan(kind, rng, trial, origin.nodes)).await?),
    })
}

impl Run {
    /// Those that are asked for, or all.
    pub(crate) fn kinds(&self) -> &[Kind] {
        if self.kind.is_empty() { Kind::value_variants() } else { &self.kind }
    }
}
