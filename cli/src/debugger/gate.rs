//! The node at which a debugged function runs: a real one, in this process, whose services hold each call until the user decides its
//! outcome.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use catena::{
    Branch, Budget, ChainId, Context, Exception, Node, Policy, Sandbox, Service, ServiceEntry, ServiceError, StepKey,
    Value,
};
use catena_script::Target;
use tokio::sync::{mpsc, oneshot};

use super::way::Open;
use crate::{connect::HERE, failure::Failure, source::Source};

/// How long a session may take: long, since the user needs time to think.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);
/// Bound on calls that have arrived at the gate and are not yet taken in.
const ARRIVALS_MAX: usize = 1_024;

/// Hands a call its outcome.
type Answer = oneshot::Sender<Result<Value, Exception>>;

/// The calls that wait for their outcome.
pub(super) struct Gate {
    arrivals: mpsc::Receiver<(StepKey, Answer)>,
    held: BTreeMap<StepKey, Answer>,
}

impl Gate {
    /// Waits for the next call to arrive. Cancel-safe.
    pub(super) async fn arrival(&mut self) {
        if let Some((key, answer)) = self.arrivals.recv().await {
            self.held.insert(key, answer);
        }
    }

    /// The steps of the calls of this branch that are here, in order.
    pub(super) fn steps(&self, chain: ChainId, branch: &Branch) -> impl Iterator<Item = u32> {
        let at = |step| StepKey { chain, branch: branch.clone(), step };
        self.held.range(at(0)..=at(u32::MAX)).map(|(key, _)| key.step)
    }

    /// Lets the call go with its outcome; `false` if nobody waits for it any more.
    pub(super) fn answer(&mut self, chain: ChainId, call: &Open, outcome: Result<Value, Exception>) -> bool {
        self.held.remove(&call.key(chain)).is_none_or(|answer| answer.send(outcome).is_ok())
    }

    /// Forgets the calls of other chains.
    pub(super) fn keep(&mut self, chain: ChainId) {
        self.held.retain(|key, _| key.chain == chain);
    }
}

/// Starts the node. It offers all services of the mesh, and those that the function names, whether anybody serves them or not.
pub(super) async fn open(
    sandbox: Sandbox,
    services: &[ServiceEntry],
    source: &Source,
    hops_max: u32,
) -> Result<(Node, Gate), Failure> {
    let mut offered: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in services {
        offered.entry(&entry.service).or_default().extend(entry.functions.iter().map(String::as_str));
    }
    for call in &source.calls {
        if let Target::Literal(target) = &call.target
            && let Some((service, function)) = target.split_once('/')
        {
            offered.entry(service).or_default().insert(function);
        }
    }
    let time_us = u64::try_from(SESSION_TIMEOUT.as_micros()).unwrap_or(u64::MAX);
    let policy = Policy { budget_max: Budget::new(time_us, hops_max), ..Policy::default() };
    let (tell, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let mut builder = Node::builder(HERE).sandbox(sandbox).policy(policy);
    for (name, functions) in offered {
        builder = builder.service(functions.into_iter().fold(Service::new(name), |service, function| {
            let tell = tell.clone();
            service.answers_raw(function, move |context, _| hold(tell.clone(), context))
        }));
    }
    let started = builder.start().await;
    let node = started.map_err(|why| Failure::cannot_start(why.to_string(), "see what the message names"))?;
    Ok((node, Gate { arrivals, held: BTreeMap::new() }))
}

async fn hold(tell: mpsc::Sender<(StepKey, Answer)>, context: Context) -> Result<Option<Value>, ServiceError> {
    let (answer, answered) = oneshot::channel();
    if let Some(key) = context.step.clone() {
        // If the session is over, `answer` is dropped, and the wait below ends with an error.
        let _ = tell.send((key, answer)).await;
    }
    let outcome = answered.await?.map_err(ServiceError::as_it_is)?;
    if !context.reads_replies() {
        return Ok(Some(outcome));
    }
    // The user sees, and may change, the replies as one list.
    let each = outcome.items().unwrap_or_else(|| vec![outcome]);
    for reply in each {
        context.preturn_value(reply).await?;
    }
    Ok(None)
}
