//! What this node holds for its partners: buffers of long messages, and return buffers. Each is for one partner, within that partner's part, until its time;
//! a partner that never comes costs that, and nobody but those who write to him.

use catena_wire::NodeId;

use crate::Time;

/// What ends something that is held before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The partner says that it has read it, by whichever link.
    Read,
    /// The partner answers, or the link of this number is lost.
    Answered(u64),
    /// As `Read`, or the link of this number is lost: it is a message that goes beside that link.
    Taken(u64),
}

impl Until {
    /// The link with which it ends.
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
    /// What ends it before its time.
    pub until: Until,
    /// Bytes held.
    pub bytes: u64,
    /// For so long, microseconds; no longer than `held_time_max_us`.
    pub lasts_us: u64,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The partner says that it has read the buffers, or will not.
    Taken,
    /// The partner answered.
    Answered,
    /// Its time is over.
    Late,
    /// The link with which it ends is gone.
    LinkLost,
    /// The partner cannot map it, and has looked at nothing.
    NotMapped,
    /// This node wants nothing of it any more.
    LetGo,
}

/// Something that is held no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended<H, W> {
    /// To be let go of.
    pub held: Option<H>,
    /// To be told.
    pub waiter: Option<W>,
    /// Why.
    pub outcome: Outcome,
}

#[derive(Debug)]
pub(super) struct Held<H, W> {
    pub(super) terms: Terms,
    pub(super) until: Time,
    pub(super) held: Option<H>,
    pub(super) waiter: Option<W>,
}
