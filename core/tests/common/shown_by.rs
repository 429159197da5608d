//! Which suite shows each mistake that a node can be told to make. A mistake that no suite shows does not compile.

use catena_core::Bug;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// A walk of `core/tests/model`.
    Model,
    /// A walk of `core/tests/replies`.
    Replies,
    /// A test of one node, or a story, of `core/tests/world`: no small world shows it.
    World,
}

/// The suite, and the world that shows the mistake: in the model the first whose name begins like this.
pub(crate) const fn shown_by(bug: Bug) -> (Suite, &'static str) {
    match bug {
        Bug::HopsForFree | Bug::StepBefore => (Suite::Model, "too few hops"),
        Bug::AnswerTwice | Bug::BranchNumbersAgain => (Suite::Model, "two splits one after"),
        Bug::FrameDropped | Bug::EndTooEarly => (Suite::Model, "a sub-chain, one loss"),
        Bug::EndTwice | Bug::RepeatRuns | Bug::MergeTooEarly => (Suite::Model, "a split in two, one loss"),
        Bug::GuestLeaks | Bug::LossDenied => (Suite::Model, "a sub-chain, one crash"),
        Bug::OriginWaitsForEver => (Suite::Model, "a chain whose hop is lost"),
        Bug::CancelForgotten | Bug::MergeCountsRepeats => (Suite::Model, "a split in two, cancelled"),
        Bug::HopsKept => (Suite::Model, "a sub-chain on its own, too few"),
        Bug::LineTwice => (Suite::Model, "lines of the console"),
        Bug::UncertaintyForgotten => (Suite::Model, "caught, gone on"),
        Bug::DuplicateRuns | Bug::DuplicateDropped => {
            (Suite::Model, "two instances of what may be done again, a plain")
        }
        Bug::ForgottenIsNew => (Suite::Model, "nodes that remember"),
        Bug::AgesAsleep => (Suite::Model, "all are stopped"),
        Bug::AnswerSentOnce => (Suite::Model, "two chains, one loss"),
        Bug::EndSentOnce => (Suite::Model, "no room for answers"),
        Bug::BusyBranchSpeaks => (Suite::Model, "a branch whose hop is lost"),
        Bug::DurableElsewhere => (Suite::Model, "two instances of a durable"),
        Bug::HopsNotShared => (Suite::Model, "branches that share too few hops"),
        Bug::RefusalForgotten => (Suite::Model, "room for one chain"),
        Bug::EarlyAnswerDropped | Bug::AnswersRenumbered => (Suite::Model, "no room for answers"),
        Bug::ListenerGoneAtOnce => (Suite::Model, "a sub-chain that its service hears"),
        Bug::AcceptedHeadless => (Suite::Model, "a state that comes late, or not, two"),
        Bug::EntryForgotten => (Suite::Model, "an origin that nobody can dial, one crash"),
        Bug::OneSourceAsked => (Suite::Model, "a function that is fetched, one crash"),
        Bug::LeftNodeFound => (Suite::Model, "a service that is elsewhere"),
        Bug::TwoOwners => (Suite::Model, "a service that moves"),
        Bug::EndOvertakes | Bug::DelegateNotCounted => (Suite::Replies, "two servers, delegation, no fault"),
        Bug::ReplyAfterEnd | Bug::CountTwice => (Suite::Replies, "two servers, delegation, one repetition"),
        Bug::CancelMissesDelegate => (Suite::Replies, "tasks that reply later, delegation, a cancel"),
        Bug::SetOutlivesReader => (Suite::Replies, "a function that stops early, a task that replies later, a cancel"),
        Bug::LateNotTold => (Suite::Replies, "a delegate that keeps its right, a server's clock first"),
        Bug::HarmlessErrorKept
        | Bug::LossOutlived
        | Bug::HeadlessBeats
        | Bug::HoldsWithoutBound
        | Bug::RepeatsAlwaysAnswered
        | Bug::HeldUnweighed
        | Bug::HeardWithoutBound
        | Bug::CodeRidesFree
        | Bug::EndedListenersStay
        | Bug::OrphansGoOn
        | Bug::OrphansMoveOn
        | Bug::AnswersUncounted
        | Bug::BranchesWithoutRoom
        | Bug::SetsUncertaintyForgotten
        | Bug::StrangersAccept
        | Bug::AnyBranchAccepts
        | Bug::SilencesAddUp
        | Bug::StrangersCancel
        | Bug::StrangersReceive
        | Bug::CancelNotPassedOn
        | Bug::CancelSentOnce
        | Bug::LateNewsCounts
        | Bug::StraysGoOn
        | Bug::EntryForgetsHosts
        | Bug::LateCallDenied
        | Bug::DuplicateReplaced
        | Bug::FirstWayNotFenced
        | Bug::BranchUncertaintyForgotten
        | Bug::StrangersEvict
        | Bug::RefusedFences
        | Bug::PeerTakesAll
        | Bug::NumbersHaveShares
        | Bug::EndsUnweighed => (Suite::World, ""),
    }
}
