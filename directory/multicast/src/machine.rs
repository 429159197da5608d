//! Decides what is asked, announced and believed, and when: time and randomness are arguments, so that a test can create a storm.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use crate::datagram::{Datagram, Told};

/// Services of other nodes that are remembered.
const SERVICES_MAX: usize = 4_096;
/// Of these, how many one sender may tell of: a liar leaves room for others.
const SERVICES_PER_SENDER_MAX: usize = 512;
/// Nodes remembered that serve one service.
const INSTANCES_MAX: usize = 16;
/// Services asked for lately that are remembered.
const ASKED_MAX: usize = 4_096;
/// A service is asked for at most once in this time, whoever wants to know: everybody hears the answer.
const ASK_EVERY_MS: u64 = 100;
/// A service is announced at most once in this time, however many ask.
const TELL_EVERY_MS: u64 = 500;
/// Datagrams that this node sends in a second at most, and how many of them may be sent at once.
const DATAGRAMS_PER_S: u64 = 50;
const DATAGRAMS_AT_ONCE: u64 = 50;
/// Datagrams that wait to be sent.
const WAITING_MAX: usize = 256;
/// An answer is delayed by up to this long, so that nodes that know the same do not all speak at once.
pub(crate) const DELAY_MS_MAX: u64 = 30;
/// The longest time for which an announcement is believed, whatever it says.
const TTL_MS_MAX: u32 = 120_000;
/// How long others may believe what this node announces.
const TTL_MS: u32 = 30_000;

/// Milliseconds since an arbitrary beginning.
pub(crate) type Ms = u64;

/// Where a service is, as some node announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Heard {
    pub(crate) node: String,
    pub(crate) run: u64,
    pub(crate) address: String,
    pub(crate) at: Ms,
    pub(crate) until: Ms,
    sender: IpAddr,
}

/// What this node announces about itself.
#[derive(Clone, Debug, Default)]
struct Own {
    node: String,
    run: u64,
    /// Services and their addresses, and when each was last announced.
    entries: BTreeMap<String, (String, Option<Ms>)>,
}

#[derive(Debug)]
pub(crate) struct Machine {
    any_address: bool,
    own: Own,
    heard: BTreeMap<String, Vec<Heard>>,
    senders: HashMap<IpAddr, usize>,
    asked: HashMap<String, Ms>,
    /// Services to be announced, and when.
    due: BTreeMap<String, Ms>,
    waiting: Vec<Vec<u8>>,
    allowance: u64,
    allowed_at: Ms,
    /// Datagrams that were ignored or not sent.
    pub(crate) dropped: u64,
}

impl Machine {
    /// `any_address`: nodes may announce addresses outside the sender's part of the network.
    pub(crate) fn new(any_address: bool) -> Self {
        Self {
            any_address,
            own: Own::default(),
            heard: BTreeMap::new(),
            senders: HashMap::new(),
            asked: HashMap::new(),
            due: BTreeMap::new(),
            waiting: Vec::new(),
            allowance: DATAGRAMS_AT_ONCE,
            allowed_at: 0,
            dropped: 0,
        }
    }

    /// Sets what this node serves from now on; new services are announced unasked, those no longer served are withdrawn.
    pub(crate) fn announce(&mut self, now: Ms, node: &str, run: u64, entries: Vec<(String, String)>) {
        let before = std::mem::take(&mut self.own);
        let new: BTreeMap<_, _> = entries.into_iter().collect();
        let gone = before.entries.into_iter().filter(|(service, _)| !new.contains_key(service));
        let gone: Vec<_> = gone.map(|(service, (address, _))| (service, address)).collect();
        let entries = new.into_iter().map(|(service, address)| (service, (address, None)));
        self.own = Own { node: node.to_owned(), run, entries: entries.collect() };
        for (service, _) in &gone {
            self.due.remove(service);
        }
        if !gone.is_empty() {
            self.tell(now, gone, 0);
        }
        self.due.extend(self.own.entries.keys().map(|service| (service.clone(), now)));
    }

    /// Asks who serves `service`, unless somebody has just asked: everybody hears the answer.
    pub(crate) fn ask(&mut self, now: Ms, service: &str) {
        if self.asked.get(service).is_some_and(|at| now < at + ASK_EVERY_MS) {
            return;
        }
        self.note_asked(now, service);
        self.send(now, Datagram::Ask(vec![service.to_owned()]).encode());
    }

    fn note_asked(&mut self, now: Ms, service: &str) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.retain(|_, at| now < *at + ASK_EVERY_MS);
        }
        if self.asked.len() < ASKED_MAX {
            self.asked.insert(service.to_owned(), now);
        }
    }

    /// Takes in a datagram. `delay_ms`: a random number, by which an answer is delayed. Returns the services about which there is something new.
    pub(crate) fn on_datagram(&mut self, now: Ms, sender: IpAddr, bytes: &[u8], delay_ms: u64) -> Vec<String> {
        match Datagram::decode(bytes) {
            Some(Datagram::Ask(services)) => {
                for service in services {
                    self.asked(now, service, delay_ms.min(DELAY_MS_MAX));
                }
                Vec::new()
            }
            Some(Datagram::Tell(told)) => self.told(now, sender, told),
            None => {
                self.dropped += 1;
                Vec::new()
            }
        }
    }

    fn asked(&mut self, now: Ms, service: String, delay_ms: u64) {
        self.note_asked(now, &service);
        let Some((_, told)) = self.own.entries.get(&service) else { return };
        // Announced a moment ago: whoever asks again has heard that, or will ask once more.
        if told.is_none_or(|at| now >= at + TELL_EVERY_MS) {
            self.due.entry(service).or_insert(now + delay_ms);
        }
    }

    fn told(&mut self, now: Ms, sender: IpAddr, told: Told) -> Vec<String> {
        let Told { node, run, ttl_ms, entries } = told;
        // This node's own announcement, or somebody's in its name.
        if run == self.own.run {
            return Vec::new();
        }
        self.expire(now);
        let until = now + u64::from(ttl_ms.min(TTL_MS_MAX));
        let mut news = Vec::new();
        for (service, address) in entries {
            if !self.any_address && !is_near(sender, &address) {
                self.dropped += 1;
                continue;
            }
            let heard = Heard { node: node.clone(), run, address, at: now, until, sender };
            if self.hear(&service, heard, ttl_ms == 0) {
                news.push(service);
            }
        }
        news
    }

    /// Returns whether that is new. Nobody else may speak for a run that has been heard of, as long as that is still believed.
    fn hear(&mut self, service: &str, heard: Heard, gone: bool) -> bool {
        let count = self.senders.get(&heard.sender).copied().unwrap_or(0);
        let services = self.heard.len();
        let Some(all) = self.heard.get_mut(service) else {
            let room = services < SERVICES_MAX && count < SERVICES_PER_SENDER_MAX;
            return self.add(service, heard, count, room && !gone);
        };
        let Some(place) = all.iter().position(|one| one.run == heard.run) else {
            let room = all.len() < INSTANCES_MAX && count < SERVICES_PER_SENDER_MAX;
            return self.add(service, heard, count, room && !gone);
        };
        if all[place].sender != heard.sender {
            self.dropped += 1;
            return false;
        }
        if gone {
            all.remove(place);
            self.uncount(heard.sender);
            self.heard.retain(|_, all| !all.is_empty());
            return true;
        }
        let news = all[place].address != heard.address;
        all[place] = heard;
        news
    }

    fn add(&mut self, service: &str, heard: Heard, count: usize, room: bool) -> bool {
        if !room {
            self.dropped += 1;
            return false;
        }
        self.senders.insert(heard.sender, count + 1);
        self.heard.entry(service.to_owned()).or_default().push(heard);
        true
    }

    fn uncount(&mut self, sender: IpAddr) {
        if let Some(count) = self.senders.get_mut(&sender) {
            *count -= 1;
            if *count == 0 {
                self.senders.remove(&sender);
            }
        }
    }

    fn expire(&mut self, now: Ms) {
        let mut old = Vec::new();
        self.heard.retain(|_, all| {
            all.retain(|one| {
                let fresh = now < one.until;
                if !fresh {
                    old.push(one.sender);
                }
                fresh
            });
            !all.is_empty()
        });
        old.into_iter().for_each(|sender| self.uncount(sender));
    }

    /// The instances known to serve it, the longest known first.
    pub(crate) fn known(&self, now: Ms, service: &str) -> Vec<Heard> {
        self.heard.get(service).into_iter().flatten().filter(|one| now < one.until).cloned().collect()
    }

    fn tell(&mut self, now: Ms, entries: Vec<(String, String)>, ttl_ms: u32) {
        let told = Told { node: self.own.node.clone(), run: self.own.run, ttl_ms, entries };
        Datagram::telling(&told).into_iter().for_each(|bytes| self.send(now, bytes));
    }

    fn send(&mut self, now: Ms, bytes: Vec<u8>) {
        self.refill(now);
        if self.allowance == 0 || self.waiting.len() >= WAITING_MAX {
            self.dropped += 1;
            return;
        }
        self.allowance -= 1;
        self.waiting.push(bytes);
    }

    fn refill(&mut self, now: Ms) {
        let more = now.saturating_sub(self.allowed_at) * DATAGRAMS_PER_S / 1_000;
        if more > 0 {
            self.allowance = (self.allowance + more).min(DATAGRAMS_AT_ONCE);
            self.allowed_at = now;
        }
    }

    /// What is to be sent now.
    pub(crate) fn poll(&mut self, now: Ms) -> Vec<Vec<u8>> {
        let due: Vec<_> = self.due.iter().filter(|(_, at)| **at <= now).map(|(service, _)| service.clone()).collect();
        let mut entries = Vec::new();
        for service in due {
            self.due.remove(&service);
            if let Some((address, told)) = self.own.entries.get_mut(&service) {
                *told = Some(now);
                entries.push((service, address.clone()));
            }
        }
        if !entries.is_empty() {
            self.tell(now, entries, TTL_MS);
        }
        std::mem::take(&mut self.waiting)
    }

    /// When [`Machine::poll`] has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Ms> {
        self.due.values().copied().min()
    }
}

/// Whether an address is the sender's own, or in the same /24 of a private network.
fn is_near(sender: IpAddr, address: &str) -> bool {
    let host = address.rsplit_once(':').map(|(host, _)| host.trim_start_matches('[').trim_end_matches(']'));
    let Some(host) = host.and_then(|host| host.parse::<IpAddr>().ok()) else { return false };
    match (sender, host) {
        (IpAddr::V4(sender), IpAddr::V4(host)) => {
            let local = host.is_private() || host.is_link_local() || host.is_loopback();
            sender == host || (local && sender.octets()[..3] == host.octets()[..3])
        }
        (sender, host) => sender == host,
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
