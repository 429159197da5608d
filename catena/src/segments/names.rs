//! Imports by name, without a name server (section 4): the local table, then the owner's table by READs, and a request to the owner where that is cheaper.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use catena_core::segments::{
    Answer, Import, ImportId,
    registry::{Probe, RECORD_BYTES, REGISTRY_NAME, Record, Saw, Slot, decode, decode_head, hash, offset_of},
};
use catena_net::{Link, Place};
use catena_wire::{Exception, Fault, NAME_BYTES_MAX, NodeRef, Order, SegmentEntry, SegmentRefusal, names};
use futures_util::{StreamExt, stream};

use futures_util::future::BoxFuture;

use super::{Granted, Imported, errors::of_refusal, far::ask};
use crate::shell::{Shell, lock};

/// How often imports are compared with what their owners export. Accesses to an import that is found stale fail locally from then on.
const REFRESH_EVERY: Duration = Duration::from_secs(10);
/// Imports compared at one time.
const REFRESHES_AT_ONCE_MAX: usize = 32;
/// The most slots of a table that a look-up reads, whatever it finds in them.
const PROBES_MAX: u32 = 256;
/// The most segments that a listing returns.
const LISTED_MAX: usize = 65_536;

/// How an import continues to look for a name that is not in its own slot of the owner's table (section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Reads further slots of the owner's table until the name is found or cannot be there.
    Probe,
    /// Asks the owner at once.
    Ask,
    /// Reads this many slots, then asks the owner.
    ProbeThenAsk(u32),
    /// Asks the owner, even for a segment that is imported already.
    Forced,
}

impl Default for Lookup {
    /// By the paper's figures, the seventh collision costs more than asking (section 4.2).
    fn default() -> Self {
        Self::ProbeThenAsk(7)
    }
}

impl Shell {
    /// Imports `owner/name`; the owner is given by its own name, by a service that it serves, or by its address.
    pub(crate) fn import<'a>(
        self: &'a Arc<Self>,
        path: &'a str,
        how: Lookup,
    ) -> BoxFuture<'a, Result<Imported, Exception>> {
        Box::pin(async move {
            let Some((hint, name)) = path.split_once('/').filter(|(hint, name)| !hint.is_empty() && !name.is_empty())
            else {
                let text = format!("{:?} names no segment; write OWNER/NAME", shown(path));
                return Err(Exception::new(names::BAD_PARAMETERS, Fault::Caller, text));
            };
            if name.len() > NAME_BYTES_MAX {
                return Err(of_refusal(&format!("import of {}", shown(path)), SegmentRefusal::UnknownName));
            }
            let owner = self.owner_of(hint).await?;
            let link = self.link_to(&owner).await?;
            let imported = self.import_from(&owner, &link, name, how).await;
            let id = imported.map_err(|why| of_refusal(&format!("import of {}", shown(path)), why))?;
            self.keep_refreshing();
            Imported::new(self, id, owner, link)
                .ok_or_else(|| of_refusal(&format!("import of {}", shown(path)), SegmentRefusal::Stale))
        })
    }

    /// Imports what a grant allows, without a look-up, since the grant says where it is.
    pub(crate) fn import_granted<'a>(
        self: &'a Arc<Self>,
        owner: NodeRef,
        granted: &'a Granted,
    ) -> BoxFuture<'a, Result<Imported, Exception>> {
        Box::pin(async move {
            let owner = Arc::new(owner);
            let link = self.link_to(&owner).await?;
            let entry = SegmentEntry {
                name: format!("grant {:x}", granted.at.grant.unwrap_or_default()),
                number: granted.at.number,
                generation: granted.at.generation,
                bytes: granted.bytes,
                rights: catena_wire::Rights::NONE,
            };
            let id = self.segments.machine().importer.imports.import(owner.id, entry, None, granted.at.grant);
            let refused = |why| of_refusal("import of a grant", why);
            Imported::new(self, id.map_err(refused)?, owner, link).ok_or_else(|| refused(SegmentRefusal::Stale))
        })
    }

    /// The same for a whole segment that its owner lends to this node alone, to be mapped.
    pub(crate) fn import_lent<'a>(
        self: &'a Arc<Self>,
        owner: NodeRef,
        granted: &'a Granted,
    ) -> BoxFuture<'a, Result<Imported, Exception>> {
        Box::pin(async move { Ok(self.import_granted(owner, granted).await?.mappable()) })
    }

    /// The segments of a node that this one may use.
    pub(crate) fn segments_of<'a>(
        self: &'a Arc<Self>,
        hint: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SegmentEntry>, Exception>> {
        Box::pin(async move {
            let owner = self.owner_of(hint).await?;
            let link = self.link_to(&owner).await?;
            let refused = |why| of_refusal(&format!("listing of the segments of {}", shown(hint)), why);
            let (mut all, mut first) = (Vec::new(), 0);
            while all.len() < LISTED_MAX {
                let hub = &self.segments;
                let by = (owner.id, link.id());
                let asked = ask(hub, &link, |machine, waiter| machine.importer.list(hub.now(), by, first, waiter));
                let Answer::Listing(some) = asked.map_err(refused)?.outcome().await.map_err(refused)? else {
                    return Err(refused(SegmentRefusal::BadAnswer));
                };
                // Numbers must rise, or a lying owner could keep this loop going for ever.
                match some.last().map(|last| last.number) {
                    Some(last) if last >= first => first = last.saturating_add(1),
                    _ => break,
                }
                all.extend(some);
            }
            Ok(all)
        })
    }

    /// The node that a hint stands for.
    async fn owner_of(self: &Arc<Self>, hint: &str) -> Result<Arc<NodeRef>, Exception> {
        if let Some(node) = self.peers.named(hint) {
            return Ok(node);
        }
        if let Some(entry) = self.peers.linked_instances(hint).into_iter().next() {
            return Ok(Arc::new(entry.node));
        }
        if hint == self.me.name {
            let text = "a node's own segments need no import: use what `export` returned";
            return Err(Exception::new(names::BAD_PARAMETERS, Fault::Caller, text));
        }
        if hint.contains(':')
            && let Some(node) = self.node_at(hint).await
        {
            return Ok(node);
        }
        let known = self.survey().await;
        let found = known.into_iter().find(|entry| entry.node.name == hint || entry.service == hint);
        found.map(|entry| Arc::new(entry.node)).ok_or_else(|| {
            let text =
                format!("no node that {} knows of is, or serves, {:?}; see `catena ls`", self.me.name, shown(hint));
            Exception::new(names::NODE_UNREACHABLE, Fault::Caller, text)
        })
    }

    async fn node_at(&self, address: &str) -> Option<Arc<NodeRef>> {
        let link = self.endpoint()?.link_introduced(&Place::new(address)).await.ok()?;
        self.peer_of(&link).await
    }

    async fn link_to(&self, owner: &NodeRef) -> Result<Arc<Link>, Exception> {
        self.dial(owner).await.ok_or_else(|| {
            let text = format!("{} cannot be reached; check that it is up", owner.name);
            Exception::new(names::NODE_UNREACHABLE, Fault::Network, text)
        })
    }

    async fn import_from(
        self: &Arc<Self>,
        owner: &Arc<NodeRef>,
        link: &Arc<Link>,
        name: &str,
        how: Lookup,
    ) -> Result<ImportId, SegmentRefusal> {
        let known = || self.segments.machine().importer.imports.known(owner.id, name);
        if how != Lookup::Forced
            && let Some(id) = known()
        {
            return Ok(id);
        }
        let probes = match how {
            Lookup::Probe => PROBES_MAX,
            Lookup::ProbeThenAsk(probes) => probes.min(PROBES_MAX),
            Lookup::Ask | Lookup::Forced => 0,
        };
        let found = if probes > 0 { self.probe(owner, link, name, probes).await } else { None };
        let (entry, slot) = match found {
            Some((record, slot)) => (described(name, &record), Some(slot)),
            // A segment that the public table does not list may still be exported to this node.
            None => (self.ask_for(owner, link, name).await?, None),
        };
        self.segments.machine().importer.imports.import(owner.id, entry, slot, None)
    }

    /// Asks the owner by name, which involves its processor ("control transfer").
    async fn ask_for(
        self: &Arc<Self>,
        owner: &NodeRef,
        link: &Link,
        name: &str,
    ) -> Result<SegmentEntry, SegmentRefusal> {
        let hub = &self.segments;
        let by = (owner.id, link.id());
        let asked = ask(hub, link, |machine, waiter| machine.importer.look_up(hub.now(), by, name, waiter));
        match asked?.outcome().await? {
            Answer::Entry(entry) if entry.name == name => Ok(entry),
            _ => Err(SegmentRefusal::BadAnswer),
        }
    }

    /// Looks for a name in the owner's table by READs of one record each. `None`: it is not found that way.
    async fn probe(
        self: &Arc<Self>,
        owner: &Arc<NodeRef>,
        link: &Arc<Link>,
        name: &str,
        probes: u32,
    ) -> Option<(Record, u32)> {
        // Tries once more if the table was replaced by a larger one.
        for _ in 0..2 {
            let (table, slots) = self.table_of(owner, link).await.ok()?;
            match self.probe_table(table, link, Probe::new(name, slots, probes)).await {
                Ok(found) => return found,
                Err(_) => self.forget_table(owner, table),
            }
        }
        None
    }

    async fn probe_table(
        self: &Arc<Self>,
        table: ImportId,
        link: &Link,
        mut probe: Probe,
    ) -> Result<Option<(Record, u32)>, SegmentRefusal> {
        let mut slot = probe.first();
        loop {
            let bytes = self.read_record(table, link, offset_of(slot)).await?;
            match probe.look(&bytes) {
                Saw::Found(record, slot) => return Ok(Some((record, slot))),
                Saw::Next(next) => slot = next,
                Saw::Absent | Saw::Unknown => return Ok(None),
            }
        }
    }

    async fn read_record(
        self: &Arc<Self>,
        table: ImportId,
        link: &Link,
        offset: u64,
    ) -> Result<bytes::Bytes, SegmentRefusal> {
        let hub = &self.segments;
        let asked = ask(hub, link, |machine, waiter| {
            let wish = (false, Order::Bytes);
            machine.importer.read(hub.now(), (table, link.id()), (offset, RECORD_BYTES as u32), wish, waiter)
        });
        match asked?.outcome().await? {
            Answer::Data(bytes) => Ok(bytes),
            _ => Err(SegmentRefusal::BadAnswer),
        }
    }

    /// The owner's table: imported once, and again when it was replaced.
    async fn table_of(
        self: &Arc<Self>,
        owner: &Arc<NodeRef>,
        link: &Arc<Link>,
    ) -> Result<(ImportId, u32), SegmentRefusal> {
        let known = lock(&self.segments.tables).get(&owner.id).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let entry = self.ask_for(owner, link, REGISTRY_NAME).await?;
        let bytes = entry.bytes;
        let table = self.segments.machine().importer.imports.import(owner.id, entry, None, None)?;
        let head = self.read_record(table, link, 0).await;
        let Some(slots) = head.ok().and_then(|head| decode_head(&head, bytes)) else {
            self.segments.machine().importer.imports.release(table);
            return Err(SegmentRefusal::BadAnswer);
        };
        // A concurrent import of the same table may have been quicker; each entry holds one use.
        if let Some((before, _)) = lock(&self.segments.tables).insert(owner.id, (table, slots)) {
            self.segments.machine().importer.imports.release(before);
        }
        Ok((table, slots))
    }

    fn forget_table(&self, owner: &NodeRef, table: ImportId) {
        let mut tables = lock(&self.segments.tables);
        if tables.get(&owner.id).is_some_and(|(known, _)| *known == table) {
            tables.remove(&owner.id);
            let mut machine = self.segments.machine();
            machine.importer.imports.purge(table, SegmentRefusal::Stale);
            machine.importer.imports.release(table);
        }
    }

    // Refreshing.

    fn keep_refreshing(self: &Arc<Self>) {
        let mut refreshing = lock(&self.segments.refreshing);
        if !std::mem::replace(&mut *refreshing, true) {
            self.segments.runtime.spawn(refresh_for_ever(Arc::downgrade(self)));
        }
    }

    /// Compares every import with what its owner exports now (section 4.1); accesses to those that are gone fail from now on without a message.
    pub(crate) fn refresh_imports<'a>(self: &'a Arc<Self>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let all: Vec<(ImportId, Import)> = {
                let machine = self.segments.machine();
                let live = machine
                    .importer
                    .imports
                    .all()
                    .filter(|(_, import)| import.stale.is_none() && import.grant.is_none());
                live.map(|(id, import)| (id, import.clone())).collect()
            };
            stream::iter(all).for_each_concurrent(REFRESHES_AT_ONCE_MAX, |(id, import)| self.refresh(id, import)).await;
        })
    }

    async fn refresh(self: &Arc<Self>, id: ImportId, import: Import) {
        if import.entry.name == REGISTRY_NAME {
            return;
        }
        let link = self.endpoint().and_then(|endpoint| endpoint.link_to_node(import.owner.0));
        // An owner without a link may be back later; the next access to its segment finds out.
        let Some(link) = link else { return };
        let Some(owner) = self.peers.of(&link) else { return };
        let there = match import.slot {
            Some(slot) => self.still_in(&owner, &link, &import, slot).await,
            None => None,
        };
        let there = match there {
            Some(there) => Some(there),
            None => match self.ask_for(&owner, &link, &import.entry.name).await {
                Ok(entry) => Some(entry.generation == import.entry.generation),
                Err(SegmentRefusal::UnknownName) => Some(false),
                Err(_) => None,
            },
        };
        if there == Some(false) {
            self.segments.machine().importer.imports.purge(id, SegmentRefusal::Stale);
        }
    }

    /// Whether the owner's table still has the segment in this slot. `None`: it does not say.
    async fn still_in(
        self: &Arc<Self>,
        owner: &Arc<NodeRef>,
        link: &Arc<Link>,
        import: &Import,
        slot: u32,
    ) -> Option<bool> {
        let (table, slots) = self.table_of(owner, link).await.ok()?;
        if slot >= slots {
            return None;
        }
        match self.read_record(table, link, offset_of(slot)).await {
            Ok(bytes) => match decode(&bytes) {
                Slot::Valid(record) if record.hash == hash(&import.entry.name) => {
                    Some(record.generation == import.entry.generation)
                }
                _ => None,
            },
            Err(_) => {
                self.forget_table(owner, table);
                None
            }
        }
    }
}

fn described(name: &str, record: &Record) -> SegmentEntry {
    let Record { number, generation, bytes, anyone, .. } = *record;
    SegmentEntry { name: name.to_owned(), number, generation, bytes, rights: anyone }
}

async fn refresh_for_ever(shell: Weak<Shell>) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        let Some(shell) = shell.upgrade() else { return };
        shell.refresh_imports().await;
    }
}

/// Names may be long, and may come from anywhere.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}
