//! A hop as it is sent: encoded from what its sender keeps, without copying any of it.

use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use minicbor::Encode;

use crate::{
    BranchCount, Budget, ChainHeader, Encoded, Frame, Hash, LogLine, Merge, PossibleDuplicate, Recording, StepKey,
    StepLimits, StepTrace, Unreached, Value, message::encoded_head,
};

/// The fields of [`crate::Hop`], one for one, borrowed.
#[derive(Clone, Copy, Debug, Encode)]
#[cbor(array)]
#[allow(missing_docs, reason = "each is what the field of the same name of Hop is")]
pub struct LeavingHop<'a> {
    #[n(0)]
    pub key: &'a StepKey,
    #[n(1)]
    pub age_us: u64,
    #[n(2)]
    pub budget: Budget,
    #[n(3)]
    pub service: &'a str,
    #[n(4)]
    pub function: &'a str,
    #[n(5)]
    pub params: &'a Value,
    #[n(6)]
    pub call: u32,
    #[n(7)]
    pub code: Hash,
    #[n(8)]
    pub header: &'a ChainHeader,
    #[cbor(n(9), with = "crate::bytes_codec::stack")]
    pub stack: &'a [Frame],
    #[n(10)]
    pub emitted: u32,
    #[n(11)]
    pub heartbeat_in_us: u64,
    #[cbor(n(12), with = "crate::bytes_codec::path")]
    pub path: &'a [String],
    #[cbor(n(13), with = "crate::bytes_codec::trace")]
    pub trace: &'a Option<Vec<StepTrace>>,
    #[cbor(n(14), with = "crate::bytes_codec::console")]
    pub console: &'a [LogLine],
    #[n(15)]
    pub continuation_bytes: u32,
    #[n(16)]
    pub splits: u16,
    #[n(17)]
    pub merge: Option<&'a Merge>,
    #[n(18)]
    pub branches: u16,
    #[cbor(n(19), with = "crate::bytes_codec::counts")]
    pub merged: &'a [BranchCount],
    #[n(20)]
    pub console_told: u32,
    #[n(21)]
    pub limits: StepLimits,
    #[n(22)]
    pub uncertain: bool,
    #[n(23)]
    pub duplicate: Option<&'a PossibleDuplicate>,
    #[n(24)]
    pub recording: Option<&'a Recording>,
    #[n(25)]
    pub unreached: Option<Unreached>,
    #[cbor(skip)]
    pub continuation: &'a Bytes,
    #[cbor(skip)]
    pub code_bytes: Option<&'a Bytes>,
}

/// Encoded like the variant of [`crate::Message`] that it is.
#[derive(Encode)]
enum Leaving<'a> {
    #[n(0)]
    Hop(#[n(0)] LeavingHop<'a>),
}

impl LeavingHop<'_> {
    /// The bytes of its message.
    #[must_use]
    pub fn encode(self) -> Encoded {
        Encoded { head: encoded_head(&Leaving::Hop(self), 0), tail: self.tail() }
    }

    /// The continuation, those of the chain stack, and the function if it rides along.
    pub(crate) fn tail(&self) -> Bytes {
        if self.stack.is_empty() && self.code_bytes.is_none() {
            return self.continuation.clone();
        }
        let stacked = self.stack.iter().map(|frame| &frame.continuation);
        let parts = || [self.continuation].into_iter().chain(stacked.clone()).chain(self.code_bytes);
        let mut tail = Vec::with_capacity(parts().map(Bytes::len).sum());
        parts().for_each(|part| tail.extend_from_slice(part));
        tail.into()
    }
}

impl crate::Hop {
    /// Borrows it for sending.
    #[must_use]
    pub fn leaving(&self) -> LeavingHop<'_> {
        LeavingHop {
            key: &self.key,
            age_us: self.age_us,
            budget: self.budget,
            service: &self.service,
            function: &self.function,
            params: &self.params,
            call: self.call,
            code: self.code,
            header: &self.header,
            stack: &self.stack,
            emitted: self.emitted,
            heartbeat_in_us: self.heartbeat_in_us,
            path: &self.path,
            trace: &self.trace,
            console: &self.console,
            continuation_bytes: self.continuation_bytes,
            splits: self.splits,
            merge: self.merge.as_ref(),
            branches: self.branches,
            merged: &self.merged,
            console_told: self.console_told,
            limits: self.limits,
            uncertain: self.uncertain,
            duplicate: self.duplicate.as_ref(),
            recording: self.recording.as_ref(),
            unreached: self.unreached,
            continuation: &self.continuation,
            code_bytes: self.code_bytes.as_ref(),
        }
    }
}
