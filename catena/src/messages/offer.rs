//! Room in memory lent to a partner, reserved before it is known whether it will be used: for the answer to a READ, or for a message.

use std::{sync::Arc, time::Duration};

use catena_core::messages::{Terms, Until};
use catena_net::Link;
use catena_wire::{Buffer, NodeId, Rights, SegmentMessage};

use super::{
    carrying::Carried,
    lending::For,
    post::{Held, Post},
    sending::described,
};
use crate::{GrantTerms, Segment, segments::pieces_of, shell::Shell};

/// How long the answer to a READ is held for the node that requested it.
const ANSWER_LASTS: Duration = Duration::from_secs(5);

/// Reserved room in memory lent to a partner. If this is dropped before the partner was told, the room is free again.
pub(crate) struct Offer<'s> {
    shell: &'s Arc<Shell>,
    segment: Segment,
    number: u64,
    buffer: Buffer,
    told: bool,
}

impl Offer<'_> {
    /// Copies the bytes into the room; returns whether all of them could be read.
    pub(crate) fn fill(&self, from: &catena_segment::Memory, offset: u64) -> bool {
        self.segment.write_from(self.buffer.at.offset, from, (offset, self.buffer.bytes)).is_ok()
    }

    /// The message that answers the READ of this number.
    pub(crate) fn sent(mut self, id: u64) -> SegmentMessage {
        self.told = true;
        SegmentMessage::Lent(id, self.number, self.buffer)
    }

    /// Writes a message into the room.
    pub(super) fn put(&self, message: &[u8]) -> bool {
        self.segment.write(self.buffer.at.offset, message).is_ok()
    }

    /// The message that announces what lies there.
    pub(super) const fn message(&self) -> SegmentMessage {
        SegmentMessage::Carried(self.number, self.buffer)
    }

    /// The partner has been told.
    pub(super) fn keep(mut self) {
        self.told = true;
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if !self.told {
            let ended = self.shell.post.machine().let_go(self.number);
            Post::finish(ended);
        }
    }
}

impl Shell {
    /// Reserves room for the answer to a READ of a partner on this host; `None`: the answer goes over the link.
    pub(crate) fn offer_room(self: &Arc<Self>, to: NodeId, link: &Link, bytes: u64) -> Option<Offer<'_>> {
        self.offer_for(to, link, bytes, (ANSWER_LASTS, None))
    }

    /// Reserves room for this many bytes, held for this long; for a message, until its link is lost.
    pub(super) fn offer_for(
        self: &Arc<Self>,
        to: NodeId,
        link: &Link,
        bytes: u64,
        (lasts, carried): (Duration, Option<Carried>),
    ) -> Option<Offer<'_>> {
        let loan = self.loan(to, Some(link), bytes, For::Reading)?;
        let lasts_us = u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX);
        let until = if carried.is_some() { Until::Taken(link.id()) } else { Until::Read };
        let number = self.post.machine().hold(self.segments.now(), Terms { to, until, bytes, lasts_us }, None).ok()?;
        self.keep_sweeping();
        let (segment, uses) = (loan.segment().clone(), pieces_of(bytes));
        let terms = GrantTerms { rights: Rights::READ, offset: loan.offset(), bytes, uses, lasts };
        let Ok(granted) = segment.grant(to, terms) else {
            let ended = self.post.machine().let_go(number);
            Post::finish(ended);
            return None;
        };
        let buffer = described(&granted, bytes, Some(&loan), uses);
        let held = Held { ranges: vec![(segment.clone(), granted, Some(loan))], carried };
        drop(self.post.machine().attach(number, held));
        Some(Offer { shell: self, segment, number, buffer, told: false })
    }
}
