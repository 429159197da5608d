//! A hop on its way to the next node.

use alloc::{boxed::Box, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, NodeRef};

use super::cargo::Cargo;
use crate::{Time, delivery::Delivery};

/// A hop being handed over: the step that its chain makes next.
#[derive(Clone, Debug)]
pub(crate) struct HandOff {
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
    pub(crate) const fn new(cargo: Cargo, delivery: Delivery, continuation: Bytes) -> Self {
        Self { cargo, continuation, code_bytes: None, delivery, retry_at: None, fallback: None }
    }

    pub(crate) const fn to(&self) -> &Arc<NodeRef> {
        self.delivery.to()
    }

    pub(crate) fn may_be_done(&self) -> bool {
        let out = self.delivery.attempts() > 0 || self.delivery.may_be_done();
        out && matches!(self.cargo, Cargo::Call(_))
    }

    pub(crate) fn retry_at(&self) -> Time {
        self.retry_at.unwrap_or(Time::from_us(u64::MAX))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.continuation.len() + self.cargo.bytes() + self.code_bytes.as_ref().map_or(0, Bytes::len)
    }
}
