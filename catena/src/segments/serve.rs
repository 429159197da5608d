//! Requests of other nodes, answered in the link's reader: without a task, without code of a service, and without waiting except for the copy itself.

use std::{
    cell::RefCell,
    sync::{Arc, MutexGuard},
};

use bytes::{Bytes, BytesMut};
use catena_core::segments::Todo;
use catena_net::Link;
use catena_segment::{Allow, Width};
use catena_wire::{At, NodeId, Order, SegmentMessage, SegmentRefusal};

use crate::{messages::Offer, shell::Shell};

use super::{
    door::Parcel,
    exported::{Approved, Exported},
    far::PIECE_BYTES,
    hub::{Hub, Machine, post, try_post},
    notices::Access,
};

/// Answers up to this size are allocated from a shared buffer, in bytes.
const POOLED_BYTES_MAX: usize = 16 << 10;
/// The size of that buffer, in bytes.
const POOL_BYTES: usize = 256 << 10;

thread_local! {
    /// Reused when all answers in it have been sent.
    static POOL: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

impl Hub {
    pub(super) fn serve(self: &Arc<Self>, shell: &Arc<Shell>, link: &Arc<Link>, from: NodeId, message: SegmentMessage) {
        let now = self.now();
        if let SegmentMessage::Attach { id, host, .. } = &message
            && self.host != Some(*host)
        {
            return post(link, SegmentMessage::Refused(*id, SegmentRefusal::NotShared));
        }
        if let SegmentMessage::Read { id, at, count, .. } = &message
            && at.grant.is_some()
            && shell.was_pushed(from, at, *count)
        {
            return post(link, SegmentMessage::Refused(*id, SegmentRefusal::Pushed));
        }
        // Only a write can unblock what waited for it.
        let lets_go = matches!(message, SegmentMessage::Write { .. });
        // Done before anything is locked, since it takes locks of its own.
        let offer = match &message {
            SegmentMessage::Read { maps: true, count, order: Order::Bytes, .. } => {
                shell.offer_room(from, link, (*count).into())
            }
            _ => None,
        };
        let mut machine = self.machine();
        let todo = machine.owner.on_request(now, link.id(), from, message);
        self.perform(machine, todo, link, from, offer);
        if lets_go {
            loop {
                let mut machine = self.machine();
                let Some(todo) = machine.owner.next(now, link.id(), from) else { return };
                self.perform(machine, todo, link, from, None);
            }
        }
    }

    /// Does what the machine decided. Locks the segment's pages before anybody else can ask the machine, so that a later revocation waits for this access.
    fn perform(
        self: &Arc<Self>,
        machine: MutexGuard<'_, Machine>,
        todo: Todo<Arc<Exported>>,
        link: &Arc<Link>,
        from: NodeId,
        offer: Option<Offer<'_>>,
    ) {
        match todo {
            Todo::Do(SegmentMessage::Read { id, at: At { offset, .. }, count, notify, .. }, memory)
                if offer.is_some() =>
            {
                let pages = memory.hold();
                drop(machine);
                // The machine has checked the bounds.
                let filled = offer.filter(|offer| offer.fill(&pages.memory, offset));
                drop(pages);
                post(
                    link,
                    filled.map_or(SegmentMessage::Refused(id, SegmentRefusal::Overloaded), |offer| offer.sent(id)),
                );
                if notify {
                    memory.notices.tell(from, Access::Read, offset, count.into());
                }
            }
            Todo::Do(SegmentMessage::Read { id, at: At { offset, .. }, count, notify, order, .. }, memory) => {
                let pages = memory.hold();
                drop(machine);
                let as_it_is = if order == Order::Bytes { pages.memory.part(offset, count.into()) } else { None };
                let data = as_it_is.or_else(|| {
                    copied(count as usize, |out| {
                        let read = pages.memory.read(offset, out).is_ok();
                        turn(out, order);
                        read
                    })
                });
                drop(pages);
                match data {
                    Some(data) => {
                        // The pieces of a long READ arrive one after the other, so that the reader can ask for the next.
                        let part = u64::from(count) >= PIECE_BYTES;
                        try_post(link, SegmentMessage::Data(id, data), part);
                    }
                    None => post(link, SegmentMessage::Refused(id, SegmentRefusal::Overloaded)),
                }
                if notify {
                    memory.notices.tell(from, Access::Read, offset, count.into());
                }
            }
            Todo::Do(SegmentMessage::Write { at: At { offset, .. }, notify, order, data, .. }, memory) => {
                let pages = memory.hold();
                drop(machine);
                // The machine has checked the bounds.
                let _ = match turned(&data, order) {
                    None => pages.memory.write(offset, &data),
                    Some(data) => pages.memory.write(offset, &data),
                };
                drop(pages);
                if notify {
                    memory.notices.tell(from, Access::Write, offset, data.len() as u64);
                }
            }
            Todo::Do(SegmentMessage::Cas { id, at: At { offset, .. }, width, old, new, notify, .. }, memory) => {
                let pages = memory.hold();
                drop(machine);
                let wide = if width == 4 { Width::Four } else { Width::Eight };
                let was = pages.memory.compare_and_swap(offset, wide, old, new);
                drop(pages);
                post(
                    link,
                    was.map_or(SegmentMessage::Refused(id, SegmentRefusal::Overloaded), |was| {
                        SegmentMessage::Was(id, was)
                    }),
                );
                if notify {
                    memory.notices.tell(from, Access::Cas, offset, width.into());
                }
            }
            Todo::Do(SegmentMessage::Attach { id, write, .. }, memory) => {
                let approved = memory.approved();
                drop(machine);
                self.share(id, (memory, approved), write, link);
            }
            Todo::Do(SegmentMessage::Reach { id, by, write, .. }, memory) => {
                let approved = memory.approved();
                drop(machine);
                self.offer(id, (memory, approved), &by, write, link);
            }
            Todo::Answer(answer) => {
                drop(machine);
                post(link, answer);
            }
            // Nothing else is ever to be done.
            Todo::Do(..) | Todo::Nothing => {}
        }
    }

    /// Moving to pages that can be shared copies the segment, so it is not done in a link's reader.
    fn share(self: &Arc<Self>, id: u64, (memory, approved): (Arc<Exported>, Approved), write: bool, link: &Arc<Link>) {
        let (hub, link) = (Arc::clone(self), Arc::clone(link));
        self.runtime.spawn_blocking(move || {
            let parcel = memory.share(write, approved).map(|(handles, bell)| Parcel { handles, bell });
            let ticket = parcel.ok().and_then(|parcel| hub.door.leave(hub.me, parcel, &hub.runtime));
            post(
                &link,
                match ticket {
                    Some(ticket) => SegmentMessage::Attached(id, ticket),
                    None => SegmentMessage::Refused(id, SegmentRefusal::NotShared),
                },
            );
        });
    }
}

impl Hub {
    /// Opening an endpoint takes a while, so it is not done in a link's reader.
    fn offer(
        self: &Arc<Self>,
        id: u64,
        (memory, approved): (Arc<Exported>, Approved),
        by: &str,
        write: bool,
        link: &Arc<Link>,
    ) {
        let not_shared = SegmentMessage::Refused(id, SegmentRefusal::NotShared);
        let Some(remote) = self.remote.clone().filter(|remote| remote.name() == by) else {
            return post(link, not_shared);
        };
        if !self.may_offer(link, &memory) {
            return post(link, not_shared);
        }
        let link = Arc::clone(link);
        self.runtime.spawn_blocking(move || {
            let allow = if write { Allow::All } else { Allow::Read };
            let answer = match memory.offer(link.id(), &*remote, allow, approved) {
                Some(Ok(token)) => SegmentMessage::Reachable { id, token, write },
                Some(Err(why)) => {
                    tracing::warn!(%why, "a segment is not offered");
                    not_shared
                }
                None => not_shared,
            };
            // The link may have ended, and its offers with it, before this offer was made.
            if link.ended().is_some() {
                memory.no_more_by(link.id());
            }
            post(&link, answer);
        });
    }
}

/// Bytes written by `fill`, from the thread's buffer if they are few.
fn copied(count: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> Option<Bytes> {
    if count > POOLED_BYTES_MAX {
        let mut data = vec![0; count];
        return fill(&mut data).then(|| data.into());
    }
    POOL.with_borrow_mut(|pool| {
        if pool.capacity() < count {
            pool.reserve(POOL_BYTES);
        }
        pool.resize(count, 0);
        let filled = fill(pool);
        let data = pool.split().freeze();
        filled.then_some(data)
    })
}

/// Converts words to the requested byte order, or from it: both are the same operation.
pub(super) fn turn(bytes: &mut [u8], order: Order) {
    let width = match order {
        Order::Little(width) if cfg!(target_endian = "big") => width,
        Order::Big(width) if cfg!(target_endian = "little") => width,
        _ => return,
    };
    bytes.chunks_exact_mut(usize::from(width).max(1)).for_each(<[u8]>::reverse);
}

/// The same on a copy; `None`: the bytes are in the right order already.
pub(super) fn turned(bytes: &[u8], order: Order) -> Option<Vec<u8>> {
    let stays = match order {
        Order::Bytes => true,
        Order::Little(_) => cfg!(target_endian = "little"),
        Order::Big(_) => cfg!(target_endian = "big"),
    };
    (!stays).then(|| {
        let mut copy = bytes.to_vec();
        turn(&mut copy, order);
        copy
    })
}
