//! Dialling addresses that others name: few at a time, and not wherever a stranger says.
//!
//! A peer that sends a chain names the address of the chain's origin, and one that greets names its own. A node that dialled them all could be made to connect
//! to hosts of a stranger's choice. So addresses that the mesh names are dialled freely; of all others, only a limited number in a minute may turn out not to
//! be the intended node, and they have turns of their own: a stranger's address that accepts and says nothing holds up no dial within the mesh.

use std::{
    collections::{HashSet, VecDeque},
    sync::Mutex,
    time::{Duration, Instant},
};

use catena_net::awake;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::lock;

/// The most dials at one time to addresses of the mesh, and to others.
const DIALS_AT_ONCE_MAX: usize = 16;
/// The most dials of either kind that wait for their turn; beyond, the node counts as unreachable.
const DIALS_WAITING_MAX: usize = 4_096;
/// How long a dial to an address outside the mesh may take, with the greeting.
const UNTOLD_DIAL_MAX: Duration = Duration::from_secs(3);
/// The most addresses of the mesh that are remembered; the oldest is forgotten first, and will be named again.
const TOLD_MAX: usize = 4_096;
/// The most dials within one [`WINDOW`] to addresses that failed within it.
const DIALS_IN_VAIN_MAX: u32 = 256;
const WINDOW: Duration = Duration::from_secs(60);

pub(super) struct Dials {
    told: Mutex<Told>,
    untold: Mutex<Untold>,
    untold_max: usize,
    told_turns: Turns,
    untold_turns: Turns,
}

/// The turns of one kind of dials.
struct Turns {
    now: Semaphore,
    waiting: Semaphore,
}

/// Addresses that this node was started with, and those that the nodes there named.
#[derive(Default)]
struct Told {
    addresses: HashSet<String>,
    oldest: VecDeque<String>,
}

/// Other addresses that are being dialled, or failed lately.
struct Untold {
    since: Instant,
    addresses: HashSet<String>,
    dials: u32,
}

/// Permission to dial an address, held for the duration of the dial.
pub(super) struct Leave<'d> {
    dials: &'d Dials,
    /// The address, if it is outside the mesh.
    untold: Option<String>,
    _turn: SemaphorePermit<'d>,
}

impl Dials {
    /// `untold_max`: how many addresses outside the mesh may turn out in a minute not to be the intended node.
    pub(super) fn new(untold_max: usize) -> Self {
        Self {
            told: Mutex::default(),
            untold: Mutex::new(Untold { since: Instant::now(), addresses: HashSet::new(), dials: 0 }),
            untold_max,
            told_turns: Turns::new(),
            untold_turns: Turns::new(),
        }
    }

    /// The mesh has named this address.
    pub(super) fn tell(&self, address: &str) {
        let mut told = lock(&self.told);
        if told.addresses.insert(address.to_owned()) {
            told.oldest.push_back(address.to_owned());
        }
        if told.oldest.len() > TOLD_MAX
            && let Some(oldest) = told.oldest.pop_front()
        {
            told.addresses.remove(&oldest);
        }
    }

    pub(super) fn is_told(&self, address: &str) -> bool {
        lock(&self.told).addresses.contains(address)
    }

    /// Waits for a turn to dial. `None`: this address must not be dialled now.
    pub(super) async fn leave(&self, address: &str) -> Option<Leave<'_>> {
        let untold = !self.is_told(address);
        let turns = if untold { &self.untold_turns } else { &self.told_turns };
        let turn = turns.next().await?;
        // The mesh may have named it meanwhile.
        let untold = untold && !self.is_told(address);
        if untold && !lock(&self.untold).take(address, self.untold_max, Instant::now()) {
            return None;
        }
        Some(Leave { dials: self, untold: untold.then(|| address.to_owned()), _turn: turn })
    }
}

impl Turns {
    fn new() -> Self {
        Self { now: Semaphore::new(DIALS_AT_ONCE_MAX), waiting: Semaphore::new(DIALS_WAITING_MAX) }
    }

    /// Waits for a turn. `None`: too many wait already.
    async fn next(&self) -> Option<SemaphorePermit<'_>> {
        let _waiting = self.waiting.try_acquire().ok()?;
        self.now.acquire().await.ok()
    }
}

impl Untold {
    fn take(&mut self, address: &str, max: usize, now: Instant) -> bool {
        if now.duration_since(self.since) >= WINDOW {
            *self = Self { since: now, addresses: HashSet::new(), dials: 0 };
        }
        if self.dials >= DIALS_IN_VAIN_MAX || (self.addresses.len() >= max && !self.addresses.contains(address)) {
            return false;
        }
        self.dials += 1;
        self.addresses.insert(address.to_owned());
        true
    }
}

impl Leave<'_> {
    /// Dials for as long as this address may take.
    pub(super) async fn dial<T, E>(&self, dialling: impl Future<Output = Result<T, E>>) -> Option<T> {
        match self.untold {
            None => dialling.await.ok(),
            Some(_) => awake::timeout(UNTOLD_DIAL_MAX, dialling).await.ok()?.ok(),
        }
    }

    /// The intended node answered, so this address does not count as a failure.
    pub(super) fn reached(self) {
        if let Some(address) = &self.untold {
            let mut untold = lock(&self.dials.untold);
            untold.addresses.remove(address);
            untold.dials = untold.dials.saturating_sub(1);
        }
    }
}

#[cfg(test)]
#[path = "dials_tests.rs"]
mod tests;
