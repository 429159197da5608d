//! One owner, two importers and everything that can happen to them, drawn from a seed: messages that overtake each other, links that break, an owner that
//! is started again, segments that come and go, rights and grants that are given and taken back. Each access that the machine allows is compared with
//! what a plain model says at that moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use catena_core::{
    Time,
    segments::{Answer, Export, Grant, ImportId, Notify, SegmentId, SegmentPolicy, Segments, Todo, WriteRefused},
};
use catena_wire::{At, NodeId, Order, Rights, SegmentMessage as M, SegmentRefusal};

#[cfg(feature = "seeded-bugs")]
use crate::drawn::each_is_seen;
use crate::drawn::{Rng, all_hold, seeds};

const SEEDS: u64 = 2_000;
const STEPS: usize = 400;
const IMPORTERS: usize = 2;

/// A segment as the model knows it. Its key is the memory's number, which is never used twice.
#[derive(Debug)]
struct Known {
    id: SegmentId,
    rights: [Rights; IMPORTERS],
    inhibited: bool,
    revoked: bool,
}

struct Importer {
    machine: Segments<u32, u64>,
    node: NodeId,
    link: u64,
    out: VecDeque<M>,
    back: VecDeque<M>,
    /// What it imported: the import, the memory meant, and the grant.
    imports: Vec<(ImportId, u32, Option<u64>)>,
    /// By import: the writes since the last flush, and whether one was refused.
    unflushed: BTreeMap<ImportId, Vec<u64>>,
    /// By waiter: the import flushed and the writes before.
    flushes: BTreeMap<u64, (ImportId, Vec<u64>)>,
}

struct World {
    rng: Rng,
    now: Time,
    owner: Segments<u32, u64>,
    policy: SegmentPolicy,
    last_generation: u64,
    memories: BTreeMap<u32, Known>,
    /// By grant: the importer, the memory and the uses left.
    grants: BTreeMap<u64, (usize, u32, u32)>,
    importers: Vec<Importer>,
    next: u64,
    /// Writes that were done, by their number.
    done: BTreeSet<u64>,
    /// By link: the last write done.
    last_of_link: BTreeMap<u64, u64>,
}

fn run(seed: u64, policy: &SegmentPolicy) -> Result<(), String> {
    let policy = policy.clone();
    let importer = |at: usize| Importer {
        machine: Segments::new(&policy, 0),
        node: NodeId(at as u64 + 1),
        link: at as u64 + 1,
        out: VecDeque::new(),
        back: VecDeque::new(),
        imports: Vec::new(),
        unflushed: BTreeMap::new(),
        flushes: BTreeMap::new(),
    };
    let mut world = World {
        rng: Rng::new(seed),
        now: Time::from_us(1),
        owner: Segments::new(&policy, 100),
        importers: (0..IMPORTERS).map(importer).collect(),
        policy,
        last_generation: 100,
        memories: BTreeMap::new(),
        grants: BTreeMap::new(),
        next: 1_000,
        done: BTreeSet::new(),
        last_of_link: BTreeMap::new(),
    };
    for _ in 0..STEPS {
        world.step()?;
    }
    world.end()
}

impl World {
    fn step(&mut self) -> Result<(), String> {
        self.now = self.now.after(self.rng.next() % 20_000);
        let at = self.rng.below(IMPORTERS);
        match self.rng.below(40) {
            0..=2 => self.export(),
            3 => self.revoke(),
            4 => self.set_rights(),
            5 => self.inhibit(),
            6 => self.grant(at),
            7..=9 => self.import(at),
            10..=16 => self.write(at),
            17..=19 => self.read_or_swap(at),
            20..=21 => self.flush(at),
            22 => self.forge(at),
            23 if self.rng.below(4) == 0 => self.lose_link(at),
            24 if self.rng.below(12) == 0 => self.restart(),
            25 => self.time_out(at),
            26..=32 => return self.deliver(at),
            _ => return self.answer(at),
        }
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn some_memory(&mut self) -> Option<u32> {
        let live: Vec<u32> =
            self.memories.iter().filter(|(_, known)| !known.revoked).map(|(memory, _)| *memory).collect();
        live.get(self.rng.below(live.len())).copied()
    }

    fn export(&mut self) {
        let memory = self.number() as u32;
        let anyone = Rights::from_bits(self.rng.next() as u8);
        let how = Export { anyone, on_read: Notify::Never, on_write: Notify::Never };
        if let Ok(id) = self.owner.owner.exports.export(&format!("{memory}"), 64, how, memory) {
            self.last_generation = self.last_generation.max(id.generation);
            self.memories.insert(memory, Known { id, rights: [anyone; IMPORTERS], inhibited: false, revoked: false });
        }
    }

    fn revoke(&mut self) {
        let Some(memory) = self.some_memory() else { return };
        let known = self.memories.get_mut(&memory).unwrap();
        known.revoked = true;
        assert_eq!(self.owner.owner.revoke(known.id), Some(memory));
        self.grants.retain(|_, (_, of, _)| *of != memory);
    }

    fn set_rights(&mut self) {
        let Some(memory) = self.some_memory() else { return };
        let (at, rights) = (self.rng.below(IMPORTERS), Rights::from_bits(self.rng.next() as u8));
        let known = self.memories.get_mut(&memory).unwrap();
        known.rights[at] = rights;
        let _ = self.owner.owner.exports.set_rights(known.id, self.importers[at].node, rights);
    }

    fn inhibit(&mut self) {
        let Some(memory) = self.some_memory() else { return };
        let known = self.memories.get_mut(&memory).unwrap();
        known.inhibited = !known.inhibited;
        let _ = self.owner.owner.exports.inhibit_writes(known.id, known.inhibited);
    }

    fn grant(&mut self, at: usize) {
        let Some(memory) = self.some_memory() else { return };
        let uses = 1 + self.rng.below(2) as u32;
        let (drawn, id) = (self.number(), self.memories[&memory].id);
        let grant = Grant {
            to: Some(self.importers[at].node),
            rights: Rights::ALL,
            offset: 0,
            bytes: 64,
            uses,
            until: Time::from_us(u64::MAX),
        };
        if self.owner.owner.grant(self.now, id, drawn, grant).is_ok() {
            self.grants.insert(drawn, (at, memory, uses));
            // Either the partner takes it, or somebody who has overheard it.
            let by = self.rng.below(IMPORTERS);
            self.take_in(by, memory, Some(drawn));
        }
    }

    fn import(&mut self, at: usize) {
        if let Some(memory) = self.some_memory() {
            self.take_in(at, memory, None);
        }
    }

    fn take_in(&mut self, at: usize, memory: u32, grant: Option<u64>) {
        let SegmentId { number, generation } = self.memories[&memory].id;
        let name = format!("{memory}");
        let entry = catena_wire::SegmentEntry { name, number, generation, bytes: 64, rights: Rights::ALL };
        let importer = &mut self.importers[at];
        if let Ok(id) = importer.machine.importer.imports.import(NodeId(99), entry, None, grant) {
            importer.imports.push((id, memory, grant));
        }
    }

    fn some_import(&mut self, at: usize) -> Option<ImportId> {
        let which = self.rng.below(self.importers[at].imports.len());
        self.importers[at].imports.get(which).map(|(id, ..)| *id)
    }

    fn write(&mut self, at: usize) {
        let Some(import) = self.some_import(at) else { return };
        let number = self.number();
        // Long ones are overtaken by short ones.
        let long = self.rng.below(2) == 0;
        let data: Bytes = [number.to_le_bytes().to_vec(), vec![0; if long { 8 } else { 0 }]].concat().into();
        let importer = &mut self.importers[at];
        let by = (import, importer.link);
        match importer.machine.importer.write(self.now, by, 0, data, (false, Order::Bytes)) {
            Ok((message, flush)) => {
                importer.out.push_back(message);
                importer.out.extend(flush.map(|asked| asked.message));
                importer.unflushed.entry(import).or_default().push(number);
            }
            Err(WriteRefused::NoRoom(flush)) => importer.out.extend(flush.map(|asked| asked.message)),
            Err(WriteRefused::Never(_)) => {}
        }
    }

    fn read_or_swap(&mut self, at: usize) {
        let Some(import) = self.some_import(at) else { return };
        let (waiter, swap) = (self.number(), self.rng.below(3) == 0);
        let importer = &mut self.importers[at];
        let by = (import, importer.link);
        let asked = match swap {
            true => importer.machine.importer.cas(self.now, by, (8, 8), (0, 1), false, waiter),
            false => importer.machine.importer.read(self.now, by, (0, 8), (false, Order::Bytes), waiter),
        };
        if let Ok(asked) = asked {
            importer.out.push_back(asked.message);
        }
    }

    fn flush(&mut self, at: usize) {
        let Some(import) = self.some_import(at) else { return };
        let waiter = self.number();
        let importer = &mut self.importers[at];
        match importer.machine.importer.flush(self.now, import, waiter) {
            Ok(Some(asked)) => {
                let writes = importer.unflushed.remove(&import).unwrap_or_default();
                importer.flushes.insert(waiter, (import, writes));
                importer.out.push_back(asked.message);
            }
            Ok(None) => {}
            Err(_) => drop(importer.unflushed.remove(&import)),
        }
    }

    /// Any message with any numbers near those that there are.
    fn forge(&mut self, at: usize) {
        let generation = (self.last_generation + 2).saturating_sub(self.rng.next() % 8);
        let place = At { number: self.rng.below(6) as u32, generation, offset: 0, grant: None };
        let id = self.rng.next();
        self.importers[at].out.push_back(M::Read {
            id,
            at: place,
            count: 8,
            notify: false,
            order: Order::Bytes,
            after: 0,
            maps: false,
        });
    }

    fn lose_link(&mut self, at: usize) {
        let new = self.number();
        let importer = &mut self.importers[at];
        let old = std::mem::replace(&mut importer.link, new);
        importer.out.clear();
        importer.back.clear();
        for (waiter, _) in importer.machine.importer.on_link_lost(old) {
            importer.flushes.remove(&waiter);
        }
        self.owner.owner.on_link_lost(old);
    }

    /// The owner dies, and another run of it begins with generations above.
    fn restart(&mut self) {
        (0..IMPORTERS).for_each(|at| self.lose_link(at));
        self.memories.values_mut().for_each(|known| known.revoked = true);
        self.grants.clear();
        self.owner = Segments::new(&self.policy, self.last_generation);
    }

    fn time_out(&mut self, at: usize) {
        self.now = self.now.after(self.rng.next() % 6_000_000);
        let importer = &mut self.importers[at];
        for (waiter, _) in importer.machine.importer.on_timeout(self.now) {
            importer.flushes.remove(&waiter);
        }
    }

    /// The owner takes a message: small ones in order, long ones whenever they come.
    fn deliver(&mut self, at: usize) -> Result<(), String> {
        let long = |message: &M| matches!(message, M::Write { data, .. } if data.len() > 8);
        let out = &self.importers[at].out;
        let (longs, smalls): (Vec<usize>, Vec<usize>) = (0..out.len()).partition(|which| long(&out[*which]));
        let choices: Vec<usize> = longs.into_iter().chain(smalls.first().copied()).collect();
        let Some(which) = choices.get(self.rng.below(choices.len())).copied() else { return Ok(()) };
        let message = self.importers[at].out.remove(which).unwrap();
        let (node, link) = (self.importers[at].node, self.importers[at].link);
        let place = match &message {
            M::Read { at, .. } | M::Write { at, .. } | M::Cas { at, .. } => Some(*at),
            _ => None,
        };
        let todo = self.owner.owner.on_request(self.now, link, node, message);
        self.perform(at, todo, place)?;
        while let Some(todo) = self.owner.owner.next(self.now, link, node) {
            self.perform(at, todo, None)?;
        }
        Ok(())
    }

    fn perform(&mut self, at: usize, todo: Todo<u32>, place: Option<At>) -> Result<(), String> {
        let link = self.importers[at].link;
        let (message, memory) = match todo {
            Todo::Do(message, memory) => (message, memory),
            Todo::Answer(message) => {
                self.importers[at].back.push_back(message);
                return Ok(());
            }
            Todo::Nothing => return Ok(()),
        };
        let need = match &message {
            M::Read { .. } => Rights::READ,
            M::Write { .. } => Rights::WRITE,
            M::Cas { .. } => Rights::CAS,
            _ => return Ok(()),
        };
        self.judge(at, memory, need, place)?;
        let answer = match message {
            M::Write { data, .. } => {
                let number = u64::from_le_bytes(*data.first_chunk().unwrap());
                if self.last_of_link.insert(link, number).is_some_and(|last| last >= number) {
                    return Err(format!("write {number} was done out of its turn"));
                }
                self.done.insert(number);
                return Ok(());
            }
            M::Read { id, count, .. } => M::Data(id, vec![0; count as usize].into()),
            M::Cas { id, .. } => M::Was(id, 0),
            _ => return Ok(()),
        };
        self.importers[at].back.push_back(answer);
        Ok(())
    }

    /// Whether what the machine allows is allowed.
    fn judge(&mut self, at: usize, memory: u32, need: Rights, place: Option<At>) -> Result<(), String> {
        let known = &self.memories[&memory];
        if known.revoked {
            return Err(format!("memory {memory} was reached after it was revoked"));
        }
        if known.inhibited && need != Rights::READ {
            return Err(format!("memory {memory} was written to while that was inhibited"));
        }
        if place.is_some_and(|place| place.generation != known.id.generation) {
            return Err(format!("memory {memory} was reached with another generation"));
        }
        if known.rights[at].include(need) {
            // What comes with a grant uses it, needed or not.
            if let Some(number) = place.and_then(|place| place.grant) {
                self.use_grant(number);
            }
            return Ok(());
        }
        // Only a grant can have allowed it: to this importer, of this memory, and not used up.
        let usable = |(_, (to, of, uses)): &(&u64, &(usize, u32, u32))| *to == at && *of == memory && *uses > 0;
        let any = || self.grants.iter().find(usable).map(|grant| *grant.0);
        let number = match place.map(|place| place.grant) {
            // A write that was held did not say which, and may have been put down to this one instead of another of the same.
            Some(Some(number)) => {
                let this = self.grants.iter().find(|grant| *grant.0 == number && usable(grant)).map(|grant| *grant.0);
                this.or_else(|| any().filter(|_| self.grants.contains_key(&number)))
            }
            None => any(),
            Some(None) => None,
        };
        let number = number.ok_or_else(|| format!("importer {at} reached memory {memory} without a right"))?;
        self.use_grant(number);
        Ok(())
    }

    fn use_grant(&mut self, number: u64) {
        if let Some((_, _, uses)) = self.grants.get_mut(&number) {
            *uses = uses.saturating_sub(1);
        }
    }

    /// An importer takes an answer.
    fn answer(&mut self, at: usize) -> Result<(), String> {
        let importer = &mut self.importers[at];
        let Some(message) = importer.back.pop_front() else { return Ok(()) };
        let told = importer.machine.importer.on_answer(NodeId(99), importer.link, message);
        let Some((waiter, outcome)) = told else { return Ok(()) };
        let Some((import, writes)) = importer.flushes.remove(&waiter) else { return Ok(()) };
        if outcome == Ok(Answer::Flushed)
            && let Some(missing) = writes.iter().find(|number| !self.done.contains(number))
        {
            return Err(format!("a flush of {import:?} says that write {missing} was done, which it was not"));
        }
        if outcome == Err(SegmentRefusal::BadAnswer) {
            return Err("an honest owner's answer was taken for a bad one".to_owned());
        }
        Ok(())
    }

    /// Whatever happened, nothing is left when it is over.
    fn end(mut self) -> Result<(), String> {
        for at in 0..IMPORTERS {
            while !self.importers[at].out.is_empty() {
                self.deliver(at)?;
            }
            while !self.importers[at].back.is_empty() {
                self.answer(at)?;
            }
            self.now = self.now.after(20_000_000);
            self.time_out(at);
            self.lose_link(at);
            let (_, requests, unflushed) = self.importers[at].machine.importer.load();
            if (requests, unflushed) != (0, 0) {
                return Err(format!("{requests} requests and {unflushed} bytes are left over"));
            }
            for (id, ..) in std::mem::take(&mut self.importers[at].imports) {
                self.importers[at].machine.importer.imports.release(id);
            }
            if self.importers[at].machine.importer.load().0 != 0 {
                return Err("imports are left over".to_owned());
            }
        }
        match self.owner.owner.load().3 {
            0 => Ok(()),
            held => Err(format!("{held} bytes of writes are held for nobody")),
        }
    }
}

fn policy() -> SegmentPolicy {
    SegmentPolicy { unflushed_bytes_max: 600, held_per_link_max: 6, segments_max: 4, ..SegmentPolicy::default() }
}

#[test]
fn nothing_is_done_that_is_not_allowed_at_that_moment() {
    all_hold(seeds(SEEDS), |seed| run(seed, &policy()));
}

#[cfg(feature = "seeded-bugs")]
#[test]
fn each_mistake_on_purpose_is_found() {
    /// Some need much to go wrong at once.
    const SEEDS_WITH_A_BUG: u64 = 5_000;
    let judge = |bug, seed| run(seed, &SegmentPolicy { bug: Some(bug), ..policy() });
    each_is_seen(catena_core::segments::SegmentBug::ALL, SEEDS_WITH_A_BUG, judge);
}
