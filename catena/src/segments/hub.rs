//! The segments' state machine under its own lock, and the messages that links bring for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use catena_core::Time;
use catena_core::segments::{Answer, Clerk, Export, ImportId, Placed, SegmentId, SegmentPolicy, Segments, registry};
use catena_net::{Link, Message as Frame, awake};
use catena_segment::{Memory, RemoteMemory};
use catena_wire::{Encoded, Message, NodeId, NodeRef, Rights, SegmentMessage, SegmentRefusal};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

use super::{
    door::{self, Door},
    exported::Exported,
};
use crate::{
    clock::Clock,
    shell::{Shell, lock},
};

/// The most segments offered to the partner of one link at one time: each has an endpoint.
const OFFERS_PER_LINK_MAX: usize = 16;

/// The result of a request.
pub(crate) type Outcome = Result<Answer, SegmentRefusal>;
/// Who waits for that result.
pub(crate) type Waiter = oneshot::Sender<Outcome>;
pub(crate) type Machine = Segments<Arc<Exported>, Waiter>;

/// How a node gives others access to its memory, and reaches theirs, other than over links.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    /// Whether it is mapped by nodes on the same host.
    pub(crate) memory: bool,
    /// The remote memory (RDMA) to use between hosts.
    pub(crate) remote: Option<Arc<dyn RemoteMemory>>,
}

/// Everything that a node does with segments.
#[derive(Debug)]
pub(crate) struct Hub {
    machine: Mutex<Machine>,
    /// The registry of exported names. Where both locks are taken, this one is taken before the machine's.
    clerk: Mutex<Registry>,
    /// Tables of other nodes: the import of each, and its number of slots.
    pub(super) tables: Mutex<HashMap<NodeId, (ImportId, u32)>>,
    pub(super) door: Arc<Door>,
    /// Identifies this host; `None`: this node shares no memory.
    pub(crate) host: Option<u128>,
    /// The means by which memory of other hosts is reached without messages; and, by link, the segments of this node that its partner reaches that way.
    pub(super) remote: Option<Arc<dyn RemoteMemory>>,
    offered: Mutex<HashMap<u64, Vec<Weak<Exported>>>>,
    /// Notified when writes are done, and when a request timed out.
    pub(super) room: Notify,
    clock: Clock,
    pub(super) policy: SegmentPolicy,
    pub(super) me: NodeId,
    pub(super) runtime: Handle,
    /// Whether a task refreshes imports; it starts with the first of them.
    pub(super) refreshing: Mutex<bool>,
}

#[derive(Debug, Default)]
struct Registry {
    clerk: Clerk,
    exported: Option<(SegmentId, Arc<Exported>)>,
}

impl Hub {
    /// Must be called within a tokio runtime. Generations begin after `last_generation`.
    pub(crate) fn new(me: NodeId, policy: SegmentPolicy, last_generation: u64, sharing: Sharing) -> Arc<Self> {
        let hub = Arc::new(Self {
            machine: Mutex::new(Segments::new(&policy, last_generation)),
            clerk: Mutex::default(),
            tables: Mutex::default(),
            door: Arc::default(),
            host: if sharing.memory { door::host() } else { None },
            remote: sharing.remote,
            offered: Mutex::default(),
            room: Notify::new(),
            clock: Clock::new(),
            policy,
            me,
            runtime: Handle::current(),
            refreshing: Mutex::default(),
        });
        tokio::spawn(watch_clock(Arc::downgrade(&hub)));
        hub
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.machine)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Handles a message about segments from a link. Those about messages between services are handled by `catena::messages`.
    pub(crate) fn on_message(
        self: &Arc<Self>,
        shell: &Arc<Shell>,
        link: &Arc<Link>,
        from: &NodeRef,
        message: SegmentMessage,
    ) {
        use SegmentMessage as M;
        match message {
            M::Read { .. }
            | M::Write { .. }
            | M::Cas { .. }
            | M::Flush(..)
            | M::Import(..)
            | M::Attach { .. }
            | M::Reach { .. }
            | M::List(..) => self.serve(shell, link, from.id, message),
            answer => self.answered(link, from.id, answer),
        }
    }

    fn answered(&self, link: &Link, from: NodeId, message: SegmentMessage) {
        let makes_room = matches!(message, SegmentMessage::Flushed(_) | SegmentMessage::Refused(..));
        let lent = if let SegmentMessage::Lent(_, number, _) = message { Some(number) } else { None };
        let done = self.machine().importer.on_answer(from, link.id(), message);
        // The requester may be gone.
        let taken = done.is_some_and(|(waiter, outcome)| waiter.send(outcome).is_ok());
        if let Some(number) = lent.filter(|_| !taken) {
            post(link, SegmentMessage::Taken(vec![number]));
        }
        if makes_room {
            self.room.notify_waiters();
        }
    }

    pub(crate) fn on_link_lost(&self, link: u64) {
        let lost = {
            let mut machine = self.machine();
            machine.owner.on_link_lost(link);
            machine.importer.on_link_lost(link)
        };
        self.end(lost);
        if let Some(offered) = lock(&self.offered).remove(&link) {
            // Ending an offer waits for accesses under way.
            self.runtime.spawn_blocking(move || {
                offered.iter().filter_map(Weak::upgrade).for_each(|exported| exported.no_more_by(link));
            });
        }
    }

    /// Whether a segment may be offered to the partner of this link; a link has a limited number of offers, for as long as it lives.
    pub(super) fn may_offer(&self, link: &Link, exported: &Arc<Exported>) -> bool {
        let mut offered = lock(&self.offered);
        let by = offered.entry(link.id()).or_default();
        let this = Arc::downgrade(exported);
        by.retain(|one| one.strong_count() > 0 && !one.ptr_eq(&this));
        let room = by.len() < OFFERS_PER_LINK_MAX;
        if room {
            by.push(this);
        }
        room
    }

    fn end(&self, ended: Vec<(Waiter, SegmentRefusal)>) {
        for (waiter, why) in ended {
            let _ = waiter.send(Err(why));
        }
        self.room.notify_waiters();
    }

    // Exports.

    /// Exports memory by a name, and enters it into the registry.
    pub(super) fn export(
        &self,
        name: &str,
        how: Export,
        exported: &Arc<Exported>,
    ) -> Result<SegmentId, catena_core::segments::ExportError> {
        let mut registry = lock(&self.clerk);
        let bytes = exported.hold().memory.bytes();
        let id = self.machine().owner.exports.export(name, bytes, how, Arc::clone(exported))?;
        let SegmentId { number, generation } = id;
        // A segment that is not for everybody is not listed: those who may use it find it by asking the owner.
        if how.anyone == Rights::NONE {
            return Ok(id);
        }
        let record = registry::Record { hash: registry::hash(name), number, anyone: how.anyone, generation, bytes };
        let placed = registry.clerk.add(record);
        self.put(&mut registry, placed);
        Ok(id)
    }

    /// Revokes a segment, and marks it so in the registry. Returns whether it existed.
    pub(super) fn revoke(&self, name: &str, id: SegmentId) -> bool {
        let mut registry = lock(&self.clerk);
        let there = self.machine().owner.revoke(id).is_some();
        if there && let Some((offset, mark)) = registry.clerk.delete(registry::hash(name)) {
            self.put(&mut registry, Placed::Here(offset, mark));
        }
        there
    }

    /// Writes into the registry's table, which is made with the first segment.
    fn put(&self, registry: &mut Registry, placed: Placed) {
        match (&registry.exported, placed) {
            (Some((_, table)), Placed::Here(offset, record)) => {
                let _ = table.hold().memory.write(offset, &record);
            }
            (None, _) => {
                let table = registry.clerk.table();
                self.new_table(registry, &table);
            }
            (Some(_), Placed::Grown(bytes)) => self.new_table(registry, &bytes),
            (Some(_), Placed::Full) => {}
        }
    }

    /// Replaces the table by another. Without memory for it, names are found by asking.
    fn new_table(&self, registry: &mut Registry, bytes: &[u8]) {
        let Ok(memory) = Memory::own(bytes.len() as u64) else { return };
        let _ = memory.write(0, bytes);
        let exported = Exported::new(memory, Export::default());
        let id = self.machine().owner.export_registry(bytes.len() as u64, Arc::clone(&exported));
        registry.exported = id.ok().map(|id| (id, exported));
    }
}

/// Sends a message that nobody keeps track of: loss of the link is reported separately.
pub(super) fn post(link: &Link, message: SegmentMessage) {
    try_post(link, message, false);
}

/// Returns whether the link took the message; `part`: it is part of a long one.
pub(super) fn try_post(link: &Link, message: SegmentMessage, part: bool) -> bool {
    let Encoded { head, tail } = Message::Segment(message).encode();
    let frame = Frame::new(head, tail);
    if part { link.post_part(frame).is_ok() } else { link.post(frame).is_ok() }
}

/// Ends requests that have waited for too long, of this node and of others.
async fn watch_clock(hub: Weak<Hub>) {
    /// How often to check the time, and whether the node still exists.
    const IDLE: Duration = Duration::from_secs(1);
    loop {
        let Some(strong) = hub.upgrade() else { return };
        let late = {
            let mut machine = strong.machine();
            machine.owner.on_timeout(strong.now());
            machine.importer.on_timeout(strong.now())
        };
        strong.end(late);
        let wait = Duration::from_micros(strong.policy.request_timeout_us / 2).clamp(Duration::from_millis(10), IDLE);
        drop(strong);
        awake::sleep(wait).await;
    }
}
