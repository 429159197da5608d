//! What is written about a step before its effect.

use catena_core::Way;
use catena_wire::{Hash, PossibleDuplicate, StepKey};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// When the step began, in milliseconds since the Unix epoch.
    pub(super) begun_ms: u64,
    /// The fingerprint of the call.
    pub(super) fingerprint: Hash,
    way: Way,
}

impl Record {
    pub(super) fn new(begun_ms: u64, fingerprint: Hash, key: &StepKey, duplicate: Option<&PossibleDuplicate>) -> Self {
        Self { begun_ms, fingerprint, way: Way::of(key, duplicate) }
    }

    /// Whether `other`, a record of the same chain, shows that another way has been where this one is.
    pub(super) fn is_overtaken_by(&self, other: &Self) -> bool {
        self.way.is_overtaken_by(&other.way)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Way { number, fence, step, branch } = &self.way;
        let numbers = [&self.begun_ms.to_be_bytes()[..], &number.to_be_bytes(), &fence.to_be_bytes()].concat();
        [&numbers, &step.to_be_bytes()[..], &self.fingerprint.0, branch.to_string().as_bytes()].concat()
    }

    /// The reverse of [`Record::to_bytes`]; `None` if the bytes are not valid.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (begun_ms, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (fence, rest) = rest.split_first_chunk()?;
        let (step, rest) = rest.split_first_chunk()?;
        let (fingerprint, branch) = rest.split_first_chunk()?;
        let way = Way {
            number: u64::from_be_bytes(*number),
            fence: u32::from_be_bytes(*fence),
            step: u32::from_be_bytes(*step),
            branch: std::str::from_utf8(branch).ok()?.parse().ok()?,
        };
        Some(Self { begun_ms: u64::from_be_bytes(*begun_ms), fingerprint: Hash(*fingerprint), way })
    }
}
