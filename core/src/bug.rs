//! Mistakes on purpose, one at a time: the tests of the tests. A tester that cannot fail proves nothing.

/// A mistake that a node makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A hop that comes again is done again.
    RepeatRuns,
    /// An intermediate answer that comes again is delivered again.
    AnswerTwice,
    /// The end is delivered before all answers that it counts.
    EndTooEarly,
    /// An end that comes again is delivered again.
    EndTwice,
    /// Moving costs no hop.
    HopsForFree,
    /// The origin of a silent chain waits for ever.
    OriginWaitsForEver,
    /// A hop of a cancelled chain that comes late runs.
    CancelForgotten,
    /// A merge host goes on before the last branch has ended.
    MergeTooEarly,
    /// A merge host takes the same branch's end twice for two.
    MergeCountsRepeats,
    /// The branches of a second split have the numbers of the first one's.
    BranchNumbersAgain,
    /// The end of a sub-chain is taken for the end of the whole.
    FrameDropped,
    /// Answers are numbered from 0 again after each hop.
    AnswersRenumbered,
    /// The guest of a chain that has ended is not let go.
    GuestLeaks,
    /// A chain keeps the hops that it lends.
    HopsKept,
    /// A line of the console that went ahead is shown again.
    LineTwice,
    /// A node that was lost after it took a hop is said to have done nothing.
    LossDenied,
    /// What a function was told of an outcome that is unknown is forgotten when it throws.
    DoubtForgotten,
    /// A chain without hops names the last step that it made, not the one that it could not make.
    StepBefore,
    /// A chain that may be under way twice does what must not be done twice.
    DuplicateRuns,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::RepeatRuns,
        Self::AnswerTwice,
        Self::EndTooEarly,
        Self::EndTwice,
        Self::HopsForFree,
        Self::OriginWaitsForEver,
        Self::CancelForgotten,
        Self::MergeTooEarly,
        Self::MergeCountsRepeats,
        Self::BranchNumbersAgain,
        Self::FrameDropped,
        Self::AnswersRenumbered,
        Self::GuestLeaks,
        Self::HopsKept,
        Self::LineTwice,
        Self::LossDenied,
        Self::DoubtForgotten,
        Self::StepBefore,
        Self::DuplicateRuns,
    ];
}
