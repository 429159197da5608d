//! What is done to which node, when, and for how long.

use std::{collections::BTreeMap, time::Duration};

use clap::ValueEnum;
use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::{process::Child, sync::OwnedMutexGuard, sync::watch, time::interval};

use crate::{
    Failure,
    fleet::{Fleet, ask_to_end, signal},
    front::Weather,
    ledger::now_ms,
    outages::{Outage, Outages},
    rng::Rng,
    stalls::Stalls,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// Ended as by a power failure, and started again.
    Kill,
    /// Two of them at one time: what one has lost, the other cannot tell either.
    KillTwo,
    /// Shut down cleanly, and started again.
    Restart,
    /// Stopped for a while: shorter than the patience of others, or longer.
    Stop,
    /// Stopped until it has forgotten what it remembers only for a while: beyond a minute at the protocol's usual speed.
    LongStop,
    /// All its links break, and no new ones can be made.
    Cut,
    /// Its links stay, and nothing passes.
    Freeze,
    /// Every message over its links is delivered twice, at once or later.
    Echo,
    /// A second node of the same name.
    Twin,
    /// The whole machine stood still, with all that runs on it. Observed, not injected.
    #[value(skip)]
    Stall,
}

impl Fault {
    /// How often each is drawn, beside the others.
    const fn weight(self) -> u64 {
        match self {
            Self::Stop => 24,
            Self::Kill => 16,
            Self::Cut | Self::Echo => 8,
            Self::KillTwo | Self::Restart | Self::Freeze => 5,
            Self::LongStop | Self::Twin => 1,
            Self::Stall => 0,
        }
    }

    /// For how long, in milliseconds.
    const fn lasts_ms(self) -> (u64, u64) {
        match self {
            Self::Kill | Self::KillTwo | Self::Restart => (0, 300),
            Self::Stop => (20, 1_500),
            // The steps' memory is 6 s here (`node::policy`), a minute by default.
            Self::LongStop => (6_500, 8_000),
            Self::Cut | Self::Freeze => (20, 1_200),
            Self::Echo => (500, 3_000),
            Self::Twin => (500, 2_000),
            Self::Stall => (0, 0),
        }
    }

    /// Whether what the node had under way is lost.
    pub(crate) const fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::KillTwo | Self::Restart | Self::Twin)
    }

    /// Whether others cannot reach the node. One whose messages come twice can be reached.
    pub(crate) const fn silences(self) -> bool {
        !matches!(self, Self::Echo)
    }

    /// What is said comes twice, as it never does over a link.
    pub(crate) const fn repeats(self) -> bool {
        matches!(self, Self::Echo)
    }

    const fn is_of_links(self) -> bool {
        matches!(self, Self::Cut | Self::Freeze | Self::Echo)
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(|| "stall".to_owned(), |value| value.get_name().to_owned())
    }
}

/// Held for as long as something is done to them.
type Nodes = Vec<(usize, OwnedMutexGuard<Child>)>;

/// How many, by their names.
pub(crate) type Injected = BTreeMap<String, usize>;

/// A fault on its way, and what it leaves to note.
type Done<'a> = LocalBoxFuture<'a, (Fault, Result<Vec<Outage>, Failure>)>;
type UnderWay<'a> = FuturesUnordered<Done<'a>>;

pub(crate) struct Faults<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) rng: Rng,
    pub(crate) kinds: &'a [Fault],
    pub(crate) every: Duration,
}

impl<'a> Faults<'a> {
    /// Starts a node fault at each tick and a link fault at every second tick, until told to stop; then restores all nodes.
    pub(crate) async fn inject(mut self, stop: watch::Receiver<bool>) -> Result<(Injected, Outages), Failure> {
        let (mut injected, mut outages) = (Injected::new(), Outages::default());
        let mut under_way = UnderWay::new();
        let (of_nodes, of_links): (Vec<_>, Vec<_>) = self.kinds.iter().copied().partition(|fault| !fault.is_of_links());
        let (mut ticks, mut every_second) = (interval(self.every), interval(2 * self.every));
        let mut stopped = stop.clone();
        let stalls = Stalls::watch();
        while !*stop.borrow() {
            tokio::select! {
                _ = stopped.changed() => {}
                _ = ticks.tick() => under_way.extend(self.node_fault(&of_nodes, &stop)),
                _ = every_second.tick() => under_way.extend(self.link_fault(&of_links, &stop)),
                Some(done) = under_way.next() => note(done, &mut injected, &mut outages),
            }
        }
        while let Some(done) = under_way.next().await {
            note(done, &mut injected, &mut outages);
        }
        for (from_ms, to_ms) in stalls.end() {
            *injected.entry(Fault::Stall.name()).or_default() += 1;
            let all = 0..self.fleet.count();
            outages.0.extend(all.map(|node| Outage { fault: Fault::Stall, node, from_ms, to_ms }));
        }
        self.fleet.revive_all().await?;
        Ok((injected, outages))
    }

    /// A fault of one node or two that have none, if that leaves half of all nodes without a fault.
    fn node_fault(&mut self, kinds: &[Fault], stop: &watch::Receiver<bool>) -> Option<Done<'a>> {
        let (fleet, all) = (self.fleet, self.fleet.count());
        let (fault, hit) = self.draw(kinds, stop)?;
        let first = self.rng.below(all);
        let free = (0..all).map(|next| (first + next) % all);
        let mut free: Nodes = free.filter_map(|number| Some((number, fleet.take(number)?))).collect();
        let count = if fault == Fault::KillTwo { 2 } else { 1 };
        if free.len() < count + all / 2 {
            return None;
        }
        free.truncate(count);
        let numbers: Vec<_> = free.iter().map(|(number, _)| *number).collect();
        Some(Box::pin(async move {
            let from_ms = now_ms();
            let done = match fault {
                Fault::Twin => hit.twin(free).await,
                Fault::Stop | Fault::LongStop => hit.stop(free).await,
                _ => hit.end(free, fault == Fault::Restart).await,
            };
            (fault, done.map(|to_ms| outages_of(fault, &numbers, from_ms, to_ms)))
        }))
    }

    /// A fault of all links that lead to one node.
    fn link_fault(&mut self, kinds: &[Fault], stop: &watch::Receiver<bool>) -> Option<Done<'a>> {
        let number = self.rng.below(self.fleet.count());
        let late = Duration::from_millis(self.rng.range(0, 4) * self.rng.range(0, 1_000));
        let (fault, hit) = self.draw(kinds, stop)?;
        let weather = match fault {
            Fault::Cut => Weather::Cut,
            Fault::Freeze => Weather::Frozen,
            _ => Weather::Echo(late),
        };
        let is_fair = self.fleet.fronts[number].is_fair();
        is_fair.then(|| -> Done<'a> {
            Box::pin(async move {
                let from_ms = now_ms();
                let to_ms = hit.weather(number, weather).await;
                (fault, Ok(outages_of(fault, &[number], from_ms, to_ms)))
            })
        })
    }

    fn draw(&mut self, kinds: &[Fault], stop: &watch::Receiver<bool>) -> Option<(Fault, Hit<'a>)> {
        let mut drawn = self.rng.range(0, kinds.iter().map(|kind| kind.weight()).sum());
        let fault = kinds.iter().copied().find(|kind| {
            let is_it = drawn < kind.weight();
            drawn = drawn.saturating_sub(kind.weight());
            is_it
        })?;
        let (low, high) = fault.lasts_ms();
        // Short ones more often than long ones: the lesser of two.
        let lasts = Duration::from_millis(self.rng.range(low, high).min(self.rng.range(low, high)));
        Some((fault, Hit { fleet: self.fleet, lasts, stop: stop.clone() }))
    }
}

fn note((fault, done): (Fault, Result<Vec<Outage>, Failure>), injected: &mut Injected, outages: &mut Outages) {
    match done {
        Ok(more) => {
            *injected.entry(fault.name()).or_default() += 1;
            outages.0.extend(more);
        }
        Err(why) => eprintln!("{fault:?} did not go as it should: {why}"),
    }
}

/// What all faults have in common. Each tells when it ended; one that held something up notes this before that goes on, for it may be
/// done by the time that the clock has been read.
#[derive(Clone)]
struct Hit<'a> {
    fleet: &'a Fleet,
    lasts: Duration,
    stop: watch::Receiver<bool>,
}

impl Hit<'_> {
    /// As long as it lasts, or until all chains have ended.
    async fn wait(mut self) {
        let _ = tokio::time::timeout(self.lasts, self.stop.wait_for(|stop| *stop)).await;
    }

    async fn stop(self, nodes: Nodes) -> Result<u64, Failure> {
        for (_, node) in &nodes {
            signal(node, Signal::STOP)?;
        }
        self.wait().await;
        let to_ms = now_ms();
        nodes.iter().try_for_each(|(_, node)| signal(node, Signal::CONT))?;
        Ok(to_ms)
    }

    async fn end(self, mut nodes: Nodes, in_order: bool) -> Result<u64, Failure> {
        let fleet = self.fleet;
        for (_, node) in &mut nodes {
            if in_order {
                ask_to_end(node).await?;
            } else {
                node.kill().await?;
            }
        }
        self.wait().await;
        for (number, node) in &mut nodes {
            fleet.revive(*number, node).await?;
        }
        Ok(now_ms())
    }

    async fn twin(self, nodes: Nodes) -> Result<u64, Failure> {
        for (number, _) in &nodes {
            let mut twin = self.fleet.twin(*number).await?;
            self.clone().wait().await;
            twin.kill().await?;
        }
        Ok(now_ms())
    }

    async fn weather(self, number: usize, weather: Weather) -> u64 {
        let front = &self.fleet.fronts[number];
        front.set(weather);
        self.wait().await;
        let to_ms = now_ms();
        front.set(Weather::Fair);
        to_ms
    }
}

fn outages_of(fault: Fault, nodes: &[usize], from_ms: u64, to_ms: u64) -> Vec<Outage> {
    nodes.iter().map(|node| Outage { fault, node: *node, from_ms, to_ms }).collect()
}
