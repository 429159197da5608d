//! One node and three partners, of whom one is hostile, and everything that they can do in any order, drawn from a seed, beside a plain model.

use std::{collections::BTreeMap, sync::Arc};

use catena_core::{
    Time,
    messages::{Delivered, Ended, MessagePolicy, Messages, Outcome, Terms, Until},
};
use catena_wire::{Datagram, NodeId, NodeRef};

#[cfg(feature = "seeded-bugs")]
use crate::drawn::each_is_seen;
use crate::drawn::{Rng, all_hold, seeds};

const SEEDS: u64 = 2_000;
const STEPS: usize = 300;
const PEERS: u64 = 3;
const LASTS_MAX_US: u64 = 5_000;

fn node(id: NodeId) -> Arc<NodeRef> {
    Arc::new(NodeRef { id, name: String::new(), address: None, site: None })
}

#[derive(Clone, Copy)]
struct Known {
    terms: Terms,
    until: Time,
}

struct World {
    rng: Rng,
    now: Time,
    policy: MessagePolicy,
    machine: Messages<u64, u64, ()>,
    /// By number. What is held for it, and who waits, has the number itself.
    held: BTreeMap<u64, Known>,
    waiting: Vec<NodeId>,
}

fn run(seed: u64, policy: &MessagePolicy) -> Result<(), String> {
    let mut world = World {
        rng: Rng::new(seed),
        now: Time::from_us(1),
        policy: policy.clone(),
        machine: Messages::new(policy.clone()),
        held: BTreeMap::new(),
        waiting: Vec::new(),
    };
    world.machine.open("a", ()).unwrap();
    for _ in 0..STEPS {
        world.step()?;
        world.check()?;
    }
    world.now = world.now.after(LASTS_MAX_US);
    let late = world.machine.on_timeout(world.now);
    world.ended(late, None)?;
    match world.machine.load() {
        (_, 0, 0) => Ok(()),
        (_, held, bytes) => Err(format!("{held} messages, {bytes} bytes, are held beyond all time")),
    }
}

impl World {
    fn step(&mut self) -> Result<(), String> {
        let peer = NodeId(self.rng.below(PEERS));
        let number = self.rng.below(self.held.last_key_value().map_or(1, |(last, _)| last + 2));
        match self.rng.below(9) {
            0 | 1 => self.hold(peer),
            2 => {
                let ended = self.machine.on_taken(peer, &[number]);
                self.ended(ended, Some((peer, false)))?;
            }
            8 => {
                let ended = self.machine.on_not_mapped(peer, self.rng.below(PEERS), number);
                self.ended(ended.into_iter().collect(), Some((peer, false)))?;
            }
            3 => {
                let answer = Datagram { to: "a".into(), about: Some(number), ..Datagram::default() };
                if let Delivered::Answers(ended, _) = self.machine.deliver(&node(peer), answer) {
                    self.ended(vec![ended], Some((peer, true)))?;
                }
            }
            4 => {
                let message = Datagram { to: "a".into(), ..Datagram::default() };
                if let Delivered::Queued(()) = self.machine.deliver(&node(peer), message) {
                    self.waiting.push(peer);
                }
            }
            5 => {
                let taken = self.machine.take("a").map(|(from, _)| from.id);
                let expected = (!self.waiting.is_empty()).then(|| self.waiting.remove(0));
                if taken != expected {
                    return Err(format!("{taken:?} was taken, not {expected:?}"));
                }
            }
            6 => {
                let lost = self.machine.on_link_lost(peer.0);
                self.ended(lost, None)?;
            }
            _ => {
                self.now = self.now.after(self.rng.below(2_000));
                let late = self.machine.on_timeout(self.now);
                self.ended(late, None)?;
                if let Some((number, _)) = self.held.iter().find(|(_, known)| known.until <= self.now) {
                    return Err(format!("{number} is held beyond its time"));
                }
            }
        }
        Ok(())
    }

    fn hold(&mut self, to: NodeId) {
        let (bytes, lasts_us) = (self.rng.below(60), self.rng.below(2 * LASTS_MAX_US));
        let until = [Until::Read, Until::Answered(to.0), Until::Taken(to.0)][self.rng.below(3) as usize];
        let terms = Terms { to, until, bytes, lasts_us };
        if let Ok(number) = self.machine.hold(self.now, terms, None) {
            self.machine.attach(number, number);
            let until = self.now.after(lasts_us.min(self.policy.held_time_max_us));
            self.held.insert(number, Known { terms, until });
        }
    }

    /// `by`: who said so, and whether by an answer.
    fn ended(&mut self, ended: Vec<Ended<u64, u64>>, by: Option<(NodeId, bool)>) -> Result<(), String> {
        for Ended { held, outcome, .. } in ended {
            let number = held.ok_or("what was held did not come back")?;
            let known = self.held.remove(&number).ok_or(format!("{number} ended twice"))?;
            if let Some((peer, answer)) = by
                && (known.terms.to != peer || known.terms.until.is_question() != answer)
            {
                return Err(format!("{peer:?} ended {number}, which is another one's: {outcome:?}"));
            }
            if outcome == Outcome::NotMapped && !matches!(known.terms.until, Until::Taken(_)) {
                return Err(format!("{number} was not to be mapped"));
            }
            if outcome == Outcome::Late && known.until > self.now {
                return Err(format!("{number} ended before its time"));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let bytes_of =
            |peer| self.held.values().filter(move |known| known.terms.to == peer).map(|known| known.terms.bytes);
        for peer in (0..PEERS).map(NodeId) {
            let (count, bytes) = (bytes_of(peer).count(), bytes_of(peer).sum::<u64>());
            if count > self.policy.held_per_peer_max || bytes > self.policy.held_bytes_per_peer_max {
                return Err(format!("{count} messages and {bytes} bytes are held for {peer:?} alone"));
            }
            let waiting = self.waiting.iter().filter(|from| **from == peer).count();
            if waiting > self.policy.mailbox_messages_per_peer_max {
                return Err(format!("{waiting} messages of {peer:?} wait"));
            }
        }
        let all: u64 = self.held.values().map(|known| known.terms.bytes).sum();
        let expected = (self.waiting.len(), self.held.len(), all);
        if self.machine.load() != expected || self.waiting.len() > self.policy.mailbox_messages_max {
            return Err(format!("there is {:?}, where {expected:?} is known", self.machine.load()));
        }
        Ok(())
    }
}

fn policy() -> MessagePolicy {
    MessagePolicy {
        mailbox_messages_max: 8,
        mailbox_messages_per_peer_max: 4,
        held_max: 20,
        held_per_peer_max: 8,
        held_bytes_max: 400,
        held_bytes_per_peer_max: 200,
        held_time_max_us: LASTS_MAX_US,
        ..MessagePolicy::default()
    }
}

#[test]
fn no_partner_gets_more_than_its_part_or_ends_what_is_anothers() {
    all_hold(seeds(SEEDS), |seed| run(seed, &policy()));
}

#[cfg(feature = "seeded-bugs")]
#[test]
fn each_mistake_on_purpose_is_found() {
    let judge = |bug, seed| run(seed, &MessagePolicy { bug: Some(bug), ..policy() });
    each_is_seen(catena_core::messages::MessageBug::ALL, SEEDS, judge);
}
