//! A hop on its way to the next node.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{Exception, NodeRef, StepKey};

use super::cargo::Cargo;
use crate::{Time, delivery::Delivery};

/// A hop being handed over.
#[derive(Clone, Debug)]
pub(crate) struct HandOff {
    pub(crate) key: StepKey,
    pub(crate) cargo: Cargo,
    pub(crate) continuation: Bytes,
    pub(crate) code_bytes: Option<Bytes>,
    pub(crate) delivery: Delivery,
    /// When it goes out again; `None` while another instance of the service is looked for.
    pub(crate) retry_at: Option<Time>,
    /// What the function is told if nothing was done anywhere.
    pub(crate) fallback: Option<Box<Exception>>,
}

impl HandOff {
    pub(crate) const fn to(&self) -> &Arc<NodeRef> {
        self.delivery.to()
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<NodeRef>> {
        self.delivery.nodes()
    }

    pub(crate) fn may_be_done(&self) -> bool {
        let out = self.delivery.attempts() > 0 || self.delivery.may_be_done();
        out && matches!(self.cargo, Cargo::Call(_))
    }

    /// Whether it was taken over once, and is handed over again.
    pub(crate) const fn was_taken(&self) -> bool {
        self.delivery.was_taken()
    }

    /// How long ago it first went out.
    pub(crate) fn age_us(&self, now: Time) -> u64 {
        self.delivery.age_us(now)
    }

    pub(crate) fn retry_at(&self) -> Time {
        self.retry_at.unwrap_or(Time::from_us(u64::MAX))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.continuation.len() + self.cargo.bytes() + self.code_bytes.as_ref().map_or(0, Bytes::len)
    }
}
