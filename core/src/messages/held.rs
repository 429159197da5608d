//! What this node holds for its partners: buffers of long messages, and return buffers. Each is for one partner, within the share of that partner's
//! address, until its time is over. A partner that never comes costs no more than that, and harms only those who write to its address.

use catena_wire::NodeId;

use crate::{Time, collections::Party};

/// What ends the holding of something before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The partner says, over whichever link, that it has read what is held.
    Read,
    /// The partner answers, or the link of this number is lost.
    Answered(u64),
    /// As `Read`, or the link of this number is lost: for a message that goes beside that link.
    Taken(u64),
}

impl Until {
    /// The link whose loss ends it.
    pub(super) const fn link(self) -> Option<u64> {
        match self {
            Self::Read => None,
            Self::Answered(link) | Self::Taken(link) => Some(link),
        }
    }

    /// Whether an answer is awaited.
    #[must_use]
    pub const fn is_question(self) -> bool {
        matches!(self, Self::Answered(_))
    }
}

/// For whom something is held, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The partner.
    pub to: NodeId,
    /// What ends it before its time is over.
    pub until: Until,
    /// Bytes held.
    pub bytes: u64,
    /// How long it is held, microseconds; no longer than `held_time_max_us`.
    pub lasts_us: u64,
}

/// How the holding ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The partner says that it has read the buffers, or will not.
    Taken,
    /// The partner answered.
    Answered,
    /// Its time is over.
    Late,
    /// The link whose loss ends it is gone.
    LinkLost,
    /// The partner cannot map what is held, and has not looked at it.
    NotMapped,
    /// This node does not want it any more.
    LetGo,
}

/// Something that is held no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended<H, W> {
    /// To be released.
    pub held: Option<H>,
    /// To be told of the outcome.
    pub waiter: Option<W>,
    /// Why.
    pub outcome: Outcome,
}

#[derive(Debug)]
pub(super) struct Held<H, W> {
    pub(super) terms: Terms,
    /// Whose share it takes.
    pub(super) party: Party,
    pub(super) until: Time,
    pub(super) held: Option<H>,
    pub(super) waiter: Option<W>,
}
