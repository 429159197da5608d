//! The ways of one chain. After a step that may have been done twice, a chain may be under way twice; each time is a way, and what one way has done the
//! other must not do again.

use catena_wire::{Hash, StepKey};

/// On which way a chain comes to a step. The default is the way of a chain of which no step can have been done twice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Way {
    /// Its number; 0 for a chain without a mark.
    pub(crate) number: u64,
    /// The earliest step that may have been done twice; `None` for a chain without a mark.
    pub(crate) since: Option<StepKey>,
}

/// What is written of a step before its effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// When it was begun, in milliseconds since the Unix epoch.
    pub(super) begun_ms: u64,
    /// The fingerprint of the call.
    pub(super) print: Hash,
    /// The number of the way that began it.
    way: u64,
    /// From this step on that way has a history of its own; never, without a mark.
    fence: u32,
    step: u32,
    /// Its branch as it is shown (`.1.2`).
    branch: String,
}

/// A fence that no step reaches.
const NEVER: u32 = u32::MAX;

impl Record {
    pub(super) fn new(begun_ms: u64, print: Hash, key: &StepKey, way: &Way) -> Self {
        let fence = match &way.since {
            Some(since) if since.chain == key.chain => since.step,
            None if way.number == 0 => NEVER,
            // The steps of another chain have numbers of their own: nothing of this one is before the fence.
            _ => 0,
        };
        Self { begun_ms, print, way: way.number, fence, step: key.step, branch: key.branch.to_string() }
    }

    /// Whether `other`, of the same chain, shows that another way has been where this one is: on the same line of branches, and not before the two parted.
    /// Both are known to have parted at the earlier of their fences.
    pub(super) fn is_overtaken_by(&self, other: &Self) -> bool {
        self.way != other.way && self.is_in_line_with(other) && other.step >= self.fence.min(other.fence)
    }

    fn is_in_line_with(&self, other: &Self) -> bool {
        let begins = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        begins(&self.branch, &other.branch) || begins(&other.branch, &self.branch)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [&self.begun_ms.to_be_bytes()[..], &self.way.to_be_bytes(), &self.fence.to_be_bytes()].concat();
        [&numbers, &self.step.to_be_bytes()[..], &self.print.0, self.branch.as_bytes()].concat()
    }

    /// What [`Record::to_bytes`] wrote, if it is that.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (begun_ms, rest) = bytes.split_first_chunk()?;
        let (way, rest) = rest.split_first_chunk()?;
        let (fence, rest) = rest.split_first_chunk()?;
        let (step, rest) = rest.split_first_chunk()?;
        let (print, branch) = rest.split_first_chunk()?;
        Some(Self {
            begun_ms: u64::from_be_bytes(*begun_ms),
            print: Hash(*print),
            way: u64::from_be_bytes(*way),
            fence: u32::from_be_bytes(*fence),
            step: u32::from_be_bytes(*step),
            branch: std::str::from_utf8(branch).ok()?.to_owned(),
        })
    }
}
