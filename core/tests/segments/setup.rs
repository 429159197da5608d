//! What a small world of segments has: what its owner and its importers do, and what may go wrong.

#[cfg(feature = "seeded-bugs")]
use catena_core::segments::SegmentBug;
use catena_core::segments::SegmentPolicy;

/// How many of each kind may happen.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    /// A link breaks.
    pub(crate) cuts: u8,
    /// A message comes twice: no link does that, but a peer may.
    pub(crate) repetitions: u8,
    /// The owner dies, and begins anew.
    pub(crate) restarts: u8,
    /// A deadline passes while messages are still on their way.
    pub(crate) haste: u8,
}

/// What the owner does of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerDoes {
    Revoke,
    /// Another segment under the same name.
    Export,
    TakeRights(usize),
    /// Writes are inhibited, or let again.
    Inhibit(bool),
}

/// By what an importer reaches the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It has yet to import it by its name.
    Name,
    /// It knew it at the beginning.
    Rights,
    /// It knows the grant's number, which is good for the first importer alone.
    Grant,
}

/// What an importer does, one after the other, without waiting for answers: but what follows an import waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Import,
    Write {
        long: bool,
    },
    Read,
    /// What this importer last knew to be in the word, for what nobody else puts there.
    Swap,
    Flush,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) owner: Vec<OwnerDoes>,
    pub(crate) importers: Vec<(By, Vec<Does>)>,
    pub(crate) faults: Faults,
    #[cfg(feature = "seeded-bugs")]
    pub(crate) bug: Option<SegmentBug>,
}

impl Setup {
    pub(crate) fn new(name: &'static str, owner: &[OwnerDoes], importers: &[(By, &[Does])], faults: Faults) -> Self {
        Self {
            name,
            owner: owner.to_vec(),
            importers: importers.iter().map(|(by, does)| (*by, does.to_vec())).collect(),
            faults,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }

    /// Nothing goes wrong, and nobody takes anything back.
    pub(crate) fn is_calm(&self) -> bool {
        self.faults == Faults::default() && self.owner.is_empty() && !self.has_grants()
    }

    pub(crate) fn has_grants(&self) -> bool {
        self.importers.iter().any(|(by, _)| *by == By::Grant)
    }

    pub(crate) fn policy(&self) -> SegmentPolicy {
        SegmentPolicy {
            segments_max: 1,
            #[cfg(feature = "seeded-bugs")]
            bug: self.bug,
            ..SegmentPolicy::default()
        }
    }
}
