//! What this node does with segments of other nodes. Routes events to the parts that they concern, and from one part to another.

use alloc::vec::Vec;
use bytes::Bytes;

use catena_wire::{At, Buffer, NodeId, Order, SegmentEntry, SegmentMessage, SegmentRefusal};

use super::{
    imports::{ImportId, Imports},
    policy::SegmentPolicy,
    requests::{Asked, Kind, Request, Requests},
    writes::{Begun, Writes},
};
use crate::Time;

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Bytes.
    Data(Bytes),
    /// Bytes that lie in memory lent to this node, until it reports this number as taken.
    Lent(u64, Buffer),
    /// What the word held before.
    Was(u64),
    /// All earlier writes are done.
    Flushed,
    /// The description of a segment.
    Entry(SegmentEntry),
    /// A ticket for the owner's door.
    Ticket(u128),
    /// How the owner's memory is reached.
    Reachable {
        /// What to tell the provider.
        token: Vec<u8>,
        /// Whether it may be written.
        write: bool,
    },
    /// Descriptions of segments.
    Listing(Vec<SegmentEntry>),
}

/// Why a write was not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteRefused {
    /// Too much is written and not flushed: there is room again when some of it is done. Holds the request to be told of that, unless it was sent before.
    NoRoom(Option<Asked>),
    /// It can never be done.
    Never(SegmentRefusal),
}

/// How an owner's memory is reached without requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direct<'a> {
    /// As shared pages, on the host with this number.
    Pages(u128),
    /// By the remote memory of this name, which both nodes have.
    Remote(&'a str),
}

/// What this node does with segments of other nodes.
#[derive(Clone, Debug)]
pub struct Importer<W> {
    /// What is imported.
    pub imports: Imports,
    requests: Requests<W>,
    writes: Writes,
    request_bytes_max: u32,
}

impl<W> Importer<W> {
    pub(super) const fn new(policy: &SegmentPolicy) -> Self {
        Self {
            imports: Imports::new(policy.imports_max),
            requests: Requests::new(policy),
            writes: Writes::new(policy.unflushed_bytes_max),
            request_bytes_max: policy.request_bytes_max,
        }
    }

    /// Begins a READ over this link. It is done after earlier writes to the same segment. Whether this node accepts lent bytes is for its shell to say, in the
    /// message.
    ///
    /// # Errors
    /// Why the request is not even sent.
    pub fn read(
        &mut self,
        now: Time,
        by: (ImportId, u64),
        (offset, count): (u64, u32),
        (notify, order): (bool, Order),
        waiter: W,
    ) -> Result<Asked, SegmentRefusal> {
        self.ask_at(now, by, (offset, count.into()), Kind::Read(count), waiter, |id, at, after| SegmentMessage::Read {
            id,
            at,
            count,
            notify,
            order,
            after,
            maps: false,
        })
    }

    /// Begins a CAS over this link. It is done after earlier writes to the same segment.
    ///
    /// # Errors
    /// Why the request is not even sent.
    pub fn cas(
        &mut self,
        now: Time,
        by: (ImportId, u64),
        (offset, width): (u64, u8),
        (old, new): (u64, u64),
        notify: bool,
        waiter: W,
    ) -> Result<Asked, SegmentRefusal> {
        if !matches!(width, 4 | 8) || !offset.is_multiple_of(width.into()) {
            return Err(SegmentRefusal::Unaligned);
        }
        self.ask_at(now, by, (offset, width.into()), Kind::Cas, waiter, |id, at, after| SegmentMessage::Cas {
            id,
            at,
            width,
            old,
            new,
            notify,
            after,
        })
    }

    /// Asks an owner to let this node reach a segment's memory without requests.
    ///
    /// # Errors
    /// Why the request is not even sent.
    pub fn attach(
        &mut self,
        now: Time,
        by: (ImportId, u64),
        how: Direct<'_>,
        write: bool,
        waiter: W,
    ) -> Result<Asked, SegmentRefusal> {
        let kind = if let Direct::Pages(_) = how { Kind::Attach } else { Kind::Reach };
        self.ask_at(now, by, (0, 0), kind, waiter, |id, at, _| match how {
            Direct::Pages(host) => SegmentMessage::Attach { id, at, host, write },
            Direct::Remote(by) => SegmentMessage::Reach { id, at, by: by.into(), write },
        })
    }

    /// Asks an owner for the segment with this name.
    ///
    /// # Errors
    /// [`SegmentRefusal::Overloaded`]
    pub fn look_up(&mut self, now: Time, by: (NodeId, u64), name: &str, waiter: W) -> Result<Asked, SegmentRefusal> {
        self.requests.ask(now, by, Kind::Import, Some(waiter), |id| SegmentMessage::Import(id, name.into()))
    }

    /// Asks an owner which segments it has, from this number on.
    ///
    /// # Errors
    /// [`SegmentRefusal::Overloaded`]
    pub fn list(&mut self, now: Time, by: (NodeId, u64), first: u32, waiter: W) -> Result<Asked, SegmentRefusal> {
        self.requests.ask(now, by, Kind::List, Some(waiter), |id| SegmentMessage::List(id, first))
    }

    /// Begins a request about a range of an import, to be done after the link's earlier writes to it.
    fn ask_at(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        (offset, count): (u64, u64),
        kind: Kind,
        waiter: W,
        message: impl FnOnce(u64, At, u64) -> SegmentMessage,
    ) -> Result<Asked, SegmentRefusal> {
        let (owner, at) = self.imports.check(id, offset, count)?;
        let after = match self.imports.written(id) {
            Some((of, upto)) if of == link && self.writes.are_under_way(owner, upto) => upto,
            _ => 0,
        };
        self.requests.ask(now, (owner, link), kind, Some(waiter), |id| message(id, at, after))
    }

    /// A WRITE over this link: it is counted, so that it is done in its turn. Now and then a flush comes with it, to be sent after it, to make room.
    ///
    /// # Errors
    /// See [`WriteRefused`].
    pub fn write(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        offset: u64,
        data: Bytes,
        (notify, order): (bool, Order),
    ) -> Result<(SegmentMessage, Option<Asked>), WriteRefused> {
        let (bytes, most) = (data.len() as u64, u64::from(self.request_bytes_max));
        let (owner, at) = self.imports.check(id, offset, bytes).map_err(WriteRefused::Never)?;
        if bytes > most {
            return Err(WriteRefused::Never(SegmentRefusal::TooLarge(most)));
        }
        let by = (owner, link);
        let Begun { turn, make_room } = self.writes.begin(by, id, (offset, bytes));
        let flush = make_room.and_then(|upto| self.make_room(now, by, upto));
        let Some(turn) = turn else { return Err(WriteRefused::NoRoom(flush)) };
        self.imports.wrote(id, (link, turn + 1));
        Ok((SegmentMessage::Write { turn, at, notify, order, data }, flush))
    }

    fn make_room(&mut self, now: Time, by: (NodeId, u64), upto: u64) -> Option<Asked> {
        let asked = self.requests.ask(now, by, Kind::Room(upto), None, |id| SegmentMessage::Flush(id, upto));
        asked.inspect_err(|_| self.writes.room_made(by)).ok()
    }

    /// Asks to be told when everything written to a segment has been done. `None` if there is nothing to wait for.
    ///
    /// # Errors
    /// What was refused, or lost, since the last flush.
    pub fn flush(&mut self, now: Time, id: ImportId, waiter: W) -> Result<Option<Asked>, SegmentRefusal> {
        let owner = self.imports.get(id).ok_or(SegmentRefusal::Stale)?.owner;
        let Some((link, upto)) = self.imports.written(id) else {
            return self.imports.flushed(id, (0, u64::MAX)).map_or(Ok(None), Err);
        };
        if !self.writes.go_by((owner, link)) {
            // Nobody can say any more whether it was done.
            return Err(self.imports.flushed(id, (link, upto)).unwrap_or(SegmentRefusal::OwnerLost));
        }
        let message = |id| SegmentMessage::Flush(id, upto);
        self.requests.ask(now, (owner, link), Kind::Flush(id, upto), Some(waiter), message).map(Some)
    }

    /// Nobody waits for this request any more.
    pub fn give_up(&mut self, id: u64) {
        self.requests.give_up(id);
    }

    /// An owner has answered. Returns who waited for that, and the result.
    pub fn on_answer(
        &mut self,
        from: NodeId,
        link: u64,
        message: SegmentMessage,
    ) -> Option<(W, Result<Answer, SegmentRefusal>)> {
        let by = (from, link);
        let id = match &message {
            SegmentMessage::NotWritten(turn, why) => {
                let (import, write) = self.writes.refused(by, *turn, *why)?;
                self.imports.refused(import, write);
                return None;
            }
            SegmentMessage::Data(id, _)
            | SegmentMessage::Lent(id, ..)
            | SegmentMessage::Was(id, _)
            | SegmentMessage::Flushed(id)
            | SegmentMessage::Refused(id, _)
            | SegmentMessage::Imported(id, _)
            | SegmentMessage::Attached(id, _)
            | SegmentMessage::Reachable { id, .. }
            | SegmentMessage::Listing(id, _) => *id,
            _ => return None,
        };
        let Request { kind, waiter, .. } = self.requests.answered(by, id)?;
        let flushed = matches!(message, SegmentMessage::Flushed(_));
        match kind {
            Kind::Room(upto) => {
                self.writes.room_made(by);
                if flushed {
                    self.writes.done_upto(by, upto);
                }
            }
            Kind::Flush(_, upto) if flushed => self.writes.done_upto(by, upto),
            _ => {}
        }
        let waiter = waiter?;
        let result = match (kind, message) {
            (_, SegmentMessage::Refused(_, why)) => Err(why),
            (Kind::Flush(import, upto), SegmentMessage::Flushed(_)) => {
                self.imports.flushed(import, (link, upto)).map_or(Ok(Answer::Flushed), Err)
            }
            (kind, message) => answer(kind, message).ok_or(SegmentRefusal::BadAnswer),
        };
        Some((waiter, result))
    }

    /// A link is gone: requests sent over it are not answered any more, and what was written may not have been done.
    pub fn on_link_lost(&mut self, link: u64) -> Vec<(W, SegmentRefusal)> {
        self.writes.on_link_lost(link);
        let lost = self.requests.on_link_lost(link);
        self.ended(lost, SegmentRefusal::OwnerLost)
    }

    /// Ends the requests that were not answered in time.
    pub fn on_timeout(&mut self, now: Time) -> Vec<(W, SegmentRefusal)> {
        let late = self.requests.on_timeout(now);
        self.ended(late, SegmentRefusal::NoAnswer)
    }

    fn ended(&mut self, requests: Vec<Request<W>>, why: SegmentRefusal) -> Vec<(W, SegmentRefusal)> {
        for request in requests.iter().filter(|request| matches!(request.kind, Kind::Room(_))) {
            self.writes.room_made(request.by);
        }
        requests.into_iter().filter_map(|request| Some((request.waiter?, why))).collect()
    }

    /// When [`Importer::on_timeout`] is due.
    #[must_use]
    pub const fn next_timeout(&self) -> Option<Time> {
        self.requests.next_timeout()
    }

    /// Bytes written to one owner and not flushed.
    #[must_use]
    pub fn unflushed_to(&self, owner: NodeId) -> u64 {
        self.writes.bytes_to(owner)
    }

    /// How many imports and requests under way there are, and the bytes written and not flushed.
    #[must_use]
    pub fn load(&self) -> (usize, usize, u64) {
        (self.imports.len(), self.requests.len(), self.writes.bytes())
    }
}

/// The result of a request of this kind, if this message is an answer to it.
fn answer(kind: Kind, message: SegmentMessage) -> Option<Answer> {
    Some(match (kind, message) {
        (Kind::Read(count), SegmentMessage::Data(_, data)) if data.len() == count as usize => Answer::Data(data),
        (Kind::Read(count), SegmentMessage::Lent(_, number, buffer)) if buffer.bytes == u64::from(count) => {
            Answer::Lent(number, buffer)
        }
        (Kind::Cas, SegmentMessage::Was(_, was)) => Answer::Was(was),
        (Kind::Import, SegmentMessage::Imported(_, entry)) => Answer::Entry(entry),
        (Kind::Attach, SegmentMessage::Attached(_, ticket)) => Answer::Ticket(ticket),
        (Kind::Reach, SegmentMessage::Reachable { token, write, .. }) => Answer::Reachable { token, write },
        (Kind::List, SegmentMessage::Listing(_, entries)) => Answer::Listing(entries),
        _ => return None,
    })
}
