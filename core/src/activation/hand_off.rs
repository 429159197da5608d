//! A hop on its way to the next node.

use alloc::{boxed::Box, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, NodeRef};

use super::cargo::Cargo;
use crate::{Policy, Time, delivery::Delivery};

/// A hop being handed over: the step that its chain makes next.
#[derive(Clone, Debug)]
pub(crate) struct HandOff {
    pub(crate) cargo: Cargo,
    pub(crate) continuation: Bytes,
    code_bytes: Option<Bytes>,
    pub(crate) delivery: Delivery,
    /// When it goes out again; `None` while another instance of the service is looked for.
    pub(crate) retry_at: Option<Time>,
    /// What the function is told if nothing was done anywhere.
    pub(crate) fallback: Option<Box<Exception>>,
    /// What it takes to keep.
    bytes: usize,
}

impl HandOff {
    pub(crate) fn new(cargo: Cargo, delivery: Delivery, continuation: Bytes) -> Self {
        let bytes = continuation.len() + cargo.bytes();
        Self { cargo, continuation, code_bytes: None, delivery, retry_at: None, fallback: None, bytes }
    }

    /// The function rides along, if it has to: it is as large as anything else that is kept until the hop is accepted.
    pub(crate) fn with_code(self, code_bytes: Option<Bytes>, policy: &Policy) -> Self {
        let counted = code_bytes.as_ref().filter(|_| !bug!(policy, CodeRidesFree)).map_or(0, Bytes::len);
        Self { code_bytes, bytes: self.bytes + counted, ..self }
    }

    /// What the function is told if nothing was done anywhere.
    pub(crate) fn or_told(self, why: Exception) -> Self {
        Self { fallback: Some(Box::new(why)), ..self }
    }

    pub(crate) const fn code_bytes(&self) -> Option<&Bytes> {
        self.code_bytes.as_ref()
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

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}
