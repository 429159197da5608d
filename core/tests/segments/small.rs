//! One owner, one or two importers and the links between them in one of their states, and what can happen next.
//!
//! A link brings small messages in order, and long ones whenever they come. It loses messages by breaking and in no
//! other way: each end notices that by itself, and what is on its way to the other still comes until that one notices.

pub(crate) mod judging;

use std::collections::VecDeque;

use catena_core::{
    Time,
    segments::{Answer, Asked, Export, Grant, ImportId, Importer, Notify, Owner, SegmentId, Segments, Todo},
};
use catena_wire::{NodeId, Order, Rights, SegmentEntry, SegmentMessage as M, SegmentRefusal};

use crate::{
    fingerprint::{fingerprint_of, told_by_fingerprint},
    setup::{By, Does, Faults, OwnerDoes, Setup},
};

/// The owner, in each of its runs: so only generations tell what they export apart.
const OWNER: NodeId = NodeId(99);
const NAME: &str = "a";
/// The number of the one grant, which is the first importer's.
const GRANT: u64 = 7;
/// Bytes that are written and read, at the segment's beginning: long enough to be overtaken.
const LONG: usize = 2;
/// The word that is swapped: where, and of how many bytes.
const WORD: (u64, u8) = (4, 4);
/// Bytes of the segment.
const BYTES: u64 = 8;
/// Generations of runs before.
const LAST_GENERATION: u64 = 100;

/// One of a link's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Owner,
    Importer,
}

/// A message on its way: by which link, to which end, and the how manyth there.
pub(crate) type OnTheWay = (usize, End, usize);

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The owner does what it does next of itself.
    Own,
    /// An importer does what it does next.
    Go(usize),
    Deliver(OnTheWay),
    /// It arrives, and will arrive again.
    Repeat(OnTheWay),
    /// This end of the link notices that it has broken.
    Break(usize, End),
    Restart,
    /// The next deadline of any importer.
    Time,
}

/// A segment as the model knows it: its memory's number is its place, so none has another's.
#[derive(Clone, Debug)]
struct Memory {
    id: SegmentId,
    /// The write that was done last, as bytes to read.
    last: u8,
    /// What is in the word; nothing comes there twice.
    word: u64,
    /// From what those who swapped were told that they swapped.
    swapped: Vec<u64>,
    /// It was revoked, or went with its run.
    gone: bool,
    inhibited: bool,
    without_rights: Vec<usize>,
}

/// A write as the model knows it: its number is its place, from 1.
#[derive(Clone, Debug)]
struct Write {
    of: usize,
    link: u64,
    turn: u64,
    /// The memory that it is for.
    meant: u8,
    done: bool,
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Import,
    Read,
    Swap { old: u64, new: u64 },
    Flush,
}

/// Something that is to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// By which the owner knows it; `None`: it never went out.
    id: Option<u64>,
    what: What,
    meant: u8,
    /// The writes that went before it.
    after: Vec<u8>,
    /// What the owner read for it.
    served: Vec<u64>,
    pub(crate) ends: Vec<Result<(), SegmentRefusal>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    node: NodeId,
    importer: Importer<u8>,
    by: By,
    import: Option<(ImportId, u8)>,
    does: VecDeque<Does>,
    /// By waiter.
    pub(crate) requests: Vec<Request>,
    /// Writes since the last flush.
    unflushed: Vec<u8>,
    /// What was in the word.
    heard: u64,
}

#[derive(Clone, Debug)]
struct Link {
    of: usize,
    number: u64,
    /// To the owner.
    out: Vec<M>,
    /// To the importer.
    back: Vec<M>,
    owner_up: bool,
    importer_up: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    now: Time,
    owner: Owner<u8>,
    owner_does: VecDeque<OwnerDoes>,
    last_generation: u64,
    memories: Vec<Memory>,
    exported: Option<u8>,
    grant_uses: u8,
    pub(crate) peers: Vec<Peer>,
    writes: Vec<Write>,
    links: Vec<Link>,
    links_made: u64,
    left: Faults,
    /// What no machine may do.
    pub(crate) wrong: Option<&'static str>,
    fingerprint: u128,
}

told_by_fingerprint!(World);

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let policy = setup.policy();
        let peer = |(at, (by, does)): (u64, &(By, Vec<Does>))| Peer {
            node: NodeId(at + 1),
            importer: Segments::<u8, u8>::new(&policy, 0).importer,
            by: *by,
            import: None,
            does: does.iter().copied().collect(),
            requests: Vec::new(),
            unflushed: Vec::new(),
            heard: 0,
        };
        let mut world = Self {
            now: Time::from_us(1),
            owner: Segments::<u8, u8>::new(&policy, LAST_GENERATION).owner,
            owner_does: setup.owner.iter().copied().collect(),
            last_generation: LAST_GENERATION,
            memories: Vec::new(),
            exported: None,
            grant_uses: 0,
            peers: (0..).zip(&setup.importers).map(peer).collect(),
            writes: Vec::new(),
            links: Vec::new(),
            links_made: 0,
            left: setup.faults,
            wrong: None,
            fingerprint: 0,
        };
        world.export();
        world.begin();
        world.settle();
        world
    }

    /// What was told before the world begins.
    fn begin(&mut self) {
        let id = self.memories[0].id;
        let grant = Grant {
            to: Some(self.peers[0].node),
            rights: Rights::ALL,
            offset: 0,
            bytes: BYTES,
            uses: 1,
            until: Time::from_us(u64::MAX),
        };
        self.owner.grant(self.now, id, GRANT, grant).unwrap();
        for at in 0..self.peers.len() {
            self.connect(at);
            if self.peers[at].by != By::Name {
                let SegmentId { number, generation } = id;
                let (name, bytes, rights) = (NAME.to_owned(), BYTES, Rights::ALL);
                self.take_in(at, SegmentEntry { name, number, generation, bytes, rights });
            }
        }
    }

    /// Everything that can happen next.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = self.ways_on();
        let calm = events.is_empty();
        if self.left.repetitions > 0 {
            events.extend(self.on_the_way().into_iter().map(Event::Repeat));
        }
        if self.left.cuts > 0 {
            let whole = |(at, link): (usize, &Link)| (link.owner_up && link.importer_up).then_some(at);
            let whole = self.links.iter().enumerate().filter_map(whole);
            events.extend(whole.flat_map(|at| [Event::Break(at, End::Owner), Event::Break(at, End::Importer)]));
        }
        if self.left.restarts > 0 {
            events.push(Event::Restart);
        }
        if (calm || self.left.haste > 0) && self.next_timeout().is_some() {
            events.push(Event::Time);
        }
        events
    }

    /// What happens if nothing goes wrong, but for time.
    fn ways_on(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.owner_does.is_empty() {
            events.push(Event::Own);
        }
        let goes = |peer: &Peer| match peer.does.front() {
            None => false,
            Some(Does::Import) => true,
            Some(_) => peer.import.is_some(),
        };
        events.extend((0..self.peers.len()).filter(|at| goes(&self.peers[*at])).map(Event::Go));
        events.extend(self.on_the_way().into_iter().map(Event::Deliver));
        for (at, link) in self.links.iter().enumerate() {
            match (link.owner_up, link.importer_up) {
                (true, false) => events.push(Event::Break(at, End::Owner)),
                (false, true) => events.push(Event::Break(at, End::Importer)),
                _ => {}
            }
        }
        events
    }

    /// What may come next on each link.
    fn on_the_way(&self) -> Vec<OnTheWay> {
        let mut all = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            // What goes to an end that is gone was dropped.
            all.extend(come_next(&link.out).into_iter().map(|which| (at, End::Owner, which)));
            all.extend(come_next(&link.back).into_iter().map(|which| (at, End::Importer, which)));
        }
        all
    }

    fn next_timeout(&self) -> Option<Time> {
        self.peers.iter().filter_map(|peer| peer.importer.next_timeout()).min()
    }

    /// Nothing can happen any more.
    pub(crate) fn at_rest(&self) -> bool {
        self.ways_on().is_empty() && self.next_timeout().is_none()
    }

    /// Whether an importer still waits for something, as its machine says.
    pub(crate) fn is_waiting(&self) -> bool {
        self.peers.iter().any(|peer| peer.importer.load().1 > 0)
    }

    pub(crate) fn after(&self, setup: &Setup, event: Event) -> Self {
        let mut next = self.clone();
        match event {
            Event::Own => next.own(),
            Event::Go(at) => next.go(at),
            Event::Deliver(on_the_way) => next.deliver(on_the_way, false),
            Event::Repeat(on_the_way) => {
                next.left.repetitions -= 1;
                next.deliver(on_the_way, true);
            }
            Event::Break(link, end) => next.break_at(link, end),
            Event::Restart => next.restart(setup),
            Event::Time => next.pass_time(),
        }
        next.settle();
        next
    }

    fn settle(&mut self) {
        self.fingerprint = 0;
        self.fingerprint = fingerprint_of(self);
    }

    fn fail(&mut self, why: &'static str) {
        self.wrong.get_or_insert(why);
    }

    fn own(&mut self) {
        let (does, exported) = (self.owner_does.pop_front(), self.exported);
        match (does, exported) {
            (Some(OwnerDoes::Revoke), Some(memory)) => {
                let known = &mut self.memories[usize::from(memory)];
                known.gone = true;
                self.exported = None;
                if self.owner.revoke(known.id) != Some(memory) {
                    self.fail("what is exported cannot be revoked");
                }
            }
            (Some(OwnerDoes::Export), None) => self.export(),
            (Some(OwnerDoes::TakeRights(at)), Some(memory)) => {
                let known = &mut self.memories[usize::from(memory)];
                known.without_rights.push(at);
                self.owner.exports.set_rights(known.id, self.peers[at].node, Rights::NONE).unwrap();
            }
            (Some(OwnerDoes::Inhibit(inhibited)), Some(memory)) => {
                let known = &mut self.memories[usize::from(memory)];
                known.inhibited = inhibited;
                if self.owner.exports.inhibit_writes(known.id, inhibited) != Ok(true) {
                    self.fail("what is exported cannot be inhibited");
                }
            }
            _ => {}
        }
    }

    fn export(&mut self) {
        let memory = self.memories.len() as u8;
        let how = Export { anyone: Rights::ALL, on_read: Notify::Never, on_write: Notify::Never };
        let id = self.owner.exports.export(NAME, BYTES, how, memory).unwrap();
        if id.generation <= self.last_generation {
            self.fail("a generation does not rise");
        }
        self.last_generation = id.generation;
        let (swapped, without_rights) = (Vec::new(), Vec::new());
        self.memories.push(Memory { id, last: 0, word: 0, swapped, gone: false, inhibited: false, without_rights });
        self.exported = Some(memory);
    }

    /// The owner dies, and a run of it that exports the same name begins.
    fn restart(&mut self, setup: &Setup) {
        self.left.restarts -= 1;
        self.owner = Segments::<u8, u8>::new(&setup.policy(), self.last_generation).owner;
        self.memories.iter_mut().for_each(|memory| memory.gone = true);
        for link in &mut self.links {
            link.owner_up = false;
            link.out.clear();
        }
        self.links.retain(|link| link.importer_up);
        self.export();
    }

    fn connect(&mut self, of: usize) {
        self.links_made += 1;
        let number = self.links_made;
        self.links.push(Link { of, number, out: Vec::new(), back: Vec::new(), owner_up: true, importer_up: true });
    }

    fn break_at(&mut self, link: usize, end: End) {
        let Link { of, number, owner_up, importer_up, .. } = self.links[link];
        if owner_up && importer_up {
            self.left.cuts -= 1;
        }
        match end {
            End::Owner => {
                self.links[link].owner_up = false;
                self.links[link].out.clear();
                self.owner.on_link_lost(number);
            }
            End::Importer => {
                self.links[link].importer_up = false;
                self.links[link].back.clear();
                let lost = self.peers[of].importer.on_link_lost(number);
                lost.into_iter().for_each(|(waiter, why)| self.end(of, waiter, Err(why)));
                self.connect(of);
            }
        }
        self.links.retain(|link| link.owner_up || link.importer_up);
    }

    fn pass_time(&mut self) {
        if !self.ways_on().is_empty() {
            self.left.haste -= 1;
        }
        let Some(due) = self.next_timeout() else { return };
        self.now = self.now.max(due);
        for of in 0..self.peers.len() {
            let late = self.peers[of].importer.on_timeout(self.now);
            late.into_iter().for_each(|(waiter, why)| self.end(of, waiter, Err(why)));
        }
    }

    fn go(&mut self, at: usize) {
        let Some(does) = self.peers[at].does.pop_front() else { return };
        // There is always one, since an importer that loses its link makes another.
        let link = self.links.iter().rposition(|link| link.of == at && link.importer_up).unwrap();
        match (does, self.peers[at].import) {
            (Does::Import, _) => self.look_up(at, link),
            (Does::Write { long }, Some(import)) => self.begin_write(at, link, import, long),
            (Does::Read, Some(import)) => self.begin_read(at, link, import),
            (Does::Swap, Some(import)) => self.begin_swap(at, link, import),
            (Does::Flush, Some(import)) => self.begin_flush(at, link, import),
            (_, None) => {}
        }
    }

    fn look_up(&mut self, at: usize, link: usize) {
        let (by, peer) = ((OWNER, self.links[link].number), &mut self.peers[at]);
        peer.import = None;
        let asked = peer.importer.look_up(self.now, by, NAME, peer.requests.len() as u8);
        self.ask(at, link, asked.map(Some), (What::Import, 0, Vec::new()));
    }

    fn begin_write(&mut self, at: usize, link: usize, (import, meant): (ImportId, u8), long: bool) {
        let (number, link_number) = (self.writes.len() as u8 + 1, self.links[link].number);
        let data = vec![number; if long { LONG } else { 1 }];
        let peer = &mut self.peers[at];
        let begun = peer.importer.write(self.now, (import, link_number), 0, data.into(), (false, Order::Bytes));
        let Ok((message, None)) = begun else { return self.fail("a write is not taken at its source") };
        let M::Write { turn, .. } = &message else { return self.fail("a write is sent as something else") };
        let turn = *turn;
        peer.unflushed.push(number);
        self.writes.push(Write { of: at, link: link_number, turn, meant, done: false, refused: false });
        self.send(link, message);
    }

    /// Those to the same segment that went by this link.
    fn writes_before(&self, at: usize, link: u64, meant: u8) -> Vec<u8> {
        let before = |write: &Write| write.of == at && write.link == link && write.meant == meant;
        (1..).zip(&self.writes).filter(|one| before(one.1)).map(|(number, _)| number).collect()
    }

    fn begin_read(&mut self, at: usize, link: usize, (import, meant): (ImportId, u8)) {
        let link_number = self.links[link].number;
        let before = self.writes_before(at, link_number, meant);
        let peer = &mut self.peers[at];
        let (by, waiter) = ((import, link_number), peer.requests.len() as u8);
        let asked = peer.importer.read(self.now, by, (0, LONG as u32), (false, Order::Bytes), waiter);
        self.ask(at, link, asked.map(Some), (What::Read, meant, before));
    }

    fn begin_swap(&mut self, at: usize, link: usize, (import, meant): (ImportId, u8)) {
        let link_number = self.links[link].number;
        let before = self.writes_before(at, link_number, meant);
        let new = 1 + self.peers.iter().map(|peer| peer.requests.len() as u64).sum::<u64>();
        let peer = &mut self.peers[at];
        let (by, old, waiter) = ((import, link_number), peer.heard, peer.requests.len() as u8);
        let asked = peer.importer.cas(self.now, by, WORD, (old, new), false, waiter);
        self.ask(at, link, asked.map(Some), (What::Swap { old, new }, meant, before));
    }

    fn begin_flush(&mut self, at: usize, link: usize, (import, meant): (ImportId, u8)) {
        let peer = &mut self.peers[at];
        let writes = std::mem::take(&mut peer.unflushed);
        let asked = peer.importer.flush(self.now, import, peer.requests.len() as u8);
        self.ask(at, link, asked, (What::Flush, meant, writes));
    }

    /// Sends what was begun. What there is nothing to wait for is done; what cannot even be sent has ended.
    fn ask(
        &mut self,
        at: usize,
        link: usize,
        asked: Result<Option<Asked>, SegmentRefusal>,
        (what, meant, after): (What, u8, Vec<u8>),
    ) {
        let (requests, id) = (&mut self.peers[at].requests, asked.as_ref().ok().and_then(Option::as_ref));
        let (waiter, id) = (requests.len() as u8, id.map(|asked| asked.id));
        requests.push(Request { id, what, meant, after, served: Vec::new(), ends: Vec::new() });
        match asked {
            Ok(Some(asked)) => self.send(link, asked.message),
            Ok(None) => self.end(at, waiter, Ok(Answer::Flushed)),
            Err(why) => self.end(at, waiter, Err(why)),
        }
    }

    fn send(&mut self, link: usize, message: M) {
        if self.links[link].owner_up {
            self.links[link].out.push(message);
        }
    }

    fn answer(&mut self, link: usize, message: M) {
        if self.links[link].importer_up {
            self.links[link].back.push(message);
        }
    }

    fn deliver(&mut self, (link, end, which): OnTheWay, again: bool) {
        let Link { of, number, .. } = self.links[link];
        let on_the_way = if end == End::Owner { &mut self.links[link].out } else { &mut self.links[link].back };
        let message = if again { on_the_way[which].clone() } else { on_the_way.remove(which) };
        if end == End::Importer {
            if let Some((waiter, outcome)) = self.peers[of].importer.on_answer(OWNER, number, message) {
                self.end(of, waiter, outcome);
            }
            return;
        }
        let node = self.peers[of].node;
        let todo = self.owner.on_request(self.now, number, node, message);
        self.perform(link, todo);
        while let Some(todo) = self.owner.next(self.now, number, node) {
            self.perform(link, todo);
        }
    }

    fn perform(&mut self, link: usize, todo: Todo<u8>) {
        match todo {
            Todo::Do(M::Read { id, count, .. }, memory) => {
                let last = self.memories[usize::from(memory)].last;
                self.serve(link, id, memory, last.into());
                self.answer(link, M::Data(id, vec![last; count as usize].into()));
            }
            Todo::Do(M::Write { data, .. }, memory) => self.write(link, memory, data[0]),
            Todo::Answer(message) => {
                if let M::NotWritten(turn, _) = &message {
                    let by = (self.links[link].number, *turn);
                    let refused = self.writes.iter_mut().filter(|write| (write.link, write.turn) == by);
                    refused.for_each(|write| write.refused = true);
                }
                self.answer(link, message);
            }
            Todo::Do(M::Cas { id, old, new, .. }, memory) => {
                let known = &mut self.memories[usize::from(memory)];
                let was = known.word;
                if was == old {
                    known.word = new;
                }
                self.judge_change(memory);
                self.serve(link, id, memory, was);
                self.answer(link, M::Was(id, was));
            }
            Todo::Nothing => {}
            Todo::Do(..) => self.fail("what nobody asked for is done"),
        }
    }
}

/// Those that can come next: each long one, and the first of the others.
fn come_next(on_the_way: &[M]) -> Vec<usize> {
    let is_long = |which: &usize| match &on_the_way[*which] {
        M::Write { data, .. } | M::Data(_, data) => data.len() >= LONG,
        _ => false,
    };
    let (long, others): (Vec<usize>, Vec<usize>) = (0..on_the_way.len()).partition(is_long);
    long.into_iter().chain(others.first().copied()).collect()
}
