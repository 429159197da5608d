//! A function told again what a chain's nodes told it, in a sandbox of this process: no node is needed, and no call is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catena::{Asked, Branch, Exception, Fault, Hash, Sandbox, StepLimits, Told, Value, What, exceptions as names};
use catena_guest::{Image, Session, Start, Turn};

use crate::{failure::Failure, source::Source};

/// The guests of one chain, as far as they run this function: sub-chains run others, which are not at hand.
pub(crate) struct Replayer {
    sandbox: Sandbox,
    image: Arc<Image>,
    limits: StepLimits,
    guests: BTreeMap<Branch, Guest>,
    /// Branches in which a sub-chain runs at the moment.
    away: BTreeSet<Branch>,
}

/// One branch, or the chain itself.
enum Guest {
    Runs(Session),
    /// It has split: its branches begin with this state, and it resumes from it when they have merged.
    Rests(Arc<[u8]>),
    Ended(Result<Value, Exception>),
}

/// What a guest did when it was told.
#[derive(Default)]
pub(crate) struct Did {
    pub(crate) emits: Vec<Value>,
    pub(crate) logs: Vec<String>,
    pub(crate) asked: Vec<Asked>,
}

impl Replayer {
    pub(crate) async fn load(sandbox: Sandbox, source: &Source, limits: StepLimits) -> Result<Self, Failure> {
        let image = source.image(&sandbox).await?;
        // Nothing travels here, so the size of continuations is not limited.
        let limits = StepLimits { continuation_bytes_max: None, ..limits };
        Ok(Self { sandbox, image, limits, guests: BTreeMap::new(), away: BTreeSet::new() })
    }

    /// What the function is known by.
    pub(crate) fn hash(&self) -> Hash {
        self.image.code()
    }

    /// Replays an event to its guest. `None`: the event is another function's, or not one that a guest is told.
    pub(crate) async fn tell(&mut self, told: &Told) -> Option<Did> {
        let Told { branch, depth, what, .. } = told;
        if *depth > 0 {
            self.away.insert(branch.clone());
            return None;
        }
        let session = match what {
            What::Begun { .. } => self.sandbox.begin(&self.image).await,
            What::Branch(..) => {
                let parent = branch.parent().filter(|parent| !self.away.contains(parent))?;
                let Guest::Rests(state) = self.guests.get(&parent)? else { return None };
                self.sandbox.resume(&self.image, state).await
            }
            What::Settled(..) => {
                self.away.remove(branch);
                match self.guests.remove(branch)? {
                    Guest::Runs(session) => Ok(session),
                    Guest::Rests(state) => self.sandbox.resume(&self.image, &state).await,
                    Guest::Ended(_) => return None,
                }
            }
            What::Turned(_) | What::Ended | What::Full => return None,
        };
        let turned = match session {
            Ok(session) => self.turn(session, what).await,
            Err(why) => Err(why),
        };
        let (guest, did) = turned.unwrap_or_else(|why| (Guest::Ended(Err(why)), Did::default()));
        self.guests.insert(branch.clone(), guest);
        Some(did)
    }

    async fn turn(&self, mut session: Session, what: &What) -> Result<(Guest, Did), Exception> {
        session.lower(&self.limits)?;
        let turn = match what {
            What::Begun { input, started_at_ms, seed, .. } => {
                session.start(input, Start { started_at_ms: *started_at_ms, seed: *seed }).await?
            }
            What::Settled(call, outcome) => session.settle(*call, outcome.as_result()).await?,
            What::Branch(call, index) => session.branch(*call, *index).await?,
            What::Turned(_) | What::Ended | What::Full => {
                return Err(Exception::new(names::PROTOCOL, Fault::Caller, "nothing to tell"));
            }
        };
        let Turn { calls, emits, logs, splits, asks, end, .. } = turn;
        let guest = match end {
            Some(end) => Guest::Ended(end),
            None if splits.is_empty() => Guest::Runs(session),
            None => Guest::Rests(session.suspend().await?.as_ref().into()),
        };
        let asks = asks.into_iter().map(|call| Asked::call(call, true));
        let calls = calls.into_iter().map(|call| Asked::call(call, false));
        let splits = splits.into_iter().map(Asked::from);
        Ok((guest, Did { emits, logs, asked: asks.chain(calls).chain(splits).collect() }))
    }

    /// How the function ended in this branch, if it has.
    pub(crate) fn end(&self, branch: &Branch) -> Option<&Result<Value, Exception>> {
        match self.guests.get(branch)? {
            Guest::Ended(end) => Some(end),
            Guest::Runs(_) | Guest::Rests(_) => None,
        }
    }

    /// Bytes of the continuations of all branches.
    pub(crate) async fn state_bytes(self) -> usize {
        let mut bytes = 0;
        for guest in self.guests.into_values() {
            bytes += match guest {
                Guest::Runs(mut session) => session.suspend().await.map_or(0, |state| state.len()),
                Guest::Rests(state) => state.len(),
                Guest::Ended(_) => 0,
            };
        }
        bytes
    }
}
