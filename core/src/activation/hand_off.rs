//! A hop on its way to the next node.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use bytes::Bytes;
use catena_wire::{Exception, NodeId, NodeRef};

use super::cargo::Cargo;
use crate::{Policy, Time, delivery::Delivery};

/// What has to happen before the hop is sent next.
#[derive(Clone, Copy, Debug)]
enum HopAwaits {
    /// The hop was sent: unless it is accepted, it is sent again at this time.
    Acceptance(Time),
    /// Another instance of its service is being looked up: the previous one must not get the hop again.
    Instance,
}

/// A hop being handed off: the step that its chain makes next.
#[derive(Clone, Debug)]
pub(crate) struct HandOff {
    pub(crate) cargo: Cargo,
    pub(crate) continuation: Bytes,
    pub(crate) code_bytes: Option<Bytes>,
    pub(crate) delivery: Delivery,
    awaits: HopAwaits,
    /// What the function is told if nothing was done anywhere.
    pub(crate) fallback: Option<Box<Exception>>,
    /// Bytes that keeping the hop takes.
    pub(crate) bytes: usize,
}

impl HandOff {
    pub(crate) fn new(cargo: Cargo, delivery: Delivery, continuation: Bytes) -> Self {
        let bytes = continuation.len() + cargo.bytes();
        Self { cargo, continuation, code_bytes: None, delivery, awaits: HopAwaits::Instance, fallback: None, bytes }
    }

    /// Sends the function's code along, if given. Its bytes count like all else that is kept until the hop is accepted.
    pub(crate) fn with_code(self, code_bytes: Option<Bytes>, policy: &Policy) -> Self {
        let counted = code_bytes.as_ref().filter(|_| !bug!(policy, CodeRidesFree)).map_or(0, Bytes::len);
        Self { code_bytes, bytes: self.bytes + counted, ..self }
    }

    /// What the function is told if nothing was done anywhere.
    pub(crate) fn or_told(self, why: Exception) -> Self {
        Self { fallback: Some(Box::new(why)), ..self }
    }

    pub(crate) const fn to(&self) -> &Arc<NodeRef> {
        self.delivery.to()
    }

    pub(crate) fn may_be_done(&self) -> bool {
        let out = self.delivery.attempts() > 0 || self.delivery.may_be_done();
        out && matches!(self.cargo, Cargo::Call(_))
    }

    /// The hop is sent now. Returns the number of this attempt.
    pub(crate) fn send(&mut self, now: Time, policy: &Policy) -> u8 {
        /// The slowest link for which the acceptance of a large hop is awaited.
        const US_PER_BYTE: u64 = 15;
        let patience_us = policy.accept_timeout_us.saturating_add(self.bytes as u64 * US_PER_BYTE);
        self.awaits = HopAwaits::Acceptance(now.after(patience_us));
        self.delivery.send(now);
        self.delivery.attempts()
    }

    /// Another instance is being looked up. Returns the nodes that must not be chosen.
    pub(crate) fn seek_instance(&mut self) -> Vec<NodeId> {
        self.awaits = HopAwaits::Instance;
        self.delivery.excluded()
    }

    pub(crate) const fn seeks_instance(&self) -> bool {
        matches!(self.awaits, HopAwaits::Instance)
    }

    /// When the hop is sent again, unless it is accepted before.
    pub(crate) const fn retry_at(&self) -> Time {
        match self.awaits {
            HopAwaits::Acceptance(retry_at) => retry_at,
            HopAwaits::Instance => Time::from_us(u64::MAX),
        }
    }
}
