//! The tests of the tester: a node that makes a mistake is caught by the walk of one world. Those that no small world shows are caught by the test
//! world (`core/tests/world/bugs.rs`).

use catena_core::Bug;

use crate::{setup::Setup, setups, walk};

/// The world that shows it, by the beginning of its name, the first that has it; `None`: the test world shows it.
fn shown_in(bug: Bug) -> Option<&'static str> {
    Some(match bug {
        Bug::HopsForFree | Bug::StepBefore => "too few hops",
        Bug::AnswerTwice | Bug::BranchNumbersAgain => "two splits one after",
        Bug::FrameDropped | Bug::EndTooEarly => "a sub-chain, one loss",
        Bug::EndTwice | Bug::RepeatRuns | Bug::MergeTooEarly => "a split in two, one loss",
        Bug::GuestLeaks | Bug::LossDenied => "a sub-chain, one crash",
        Bug::OriginWaitsForEver => "a chain whose hop is lost",
        Bug::CancelForgotten | Bug::MergeCountsRepeats => "a split in two, cancelled",
        Bug::HopsKept => "a sub-chain on its own, too few",
        Bug::LineTwice => "lines of the console",
        Bug::UncertaintyForgotten => "caught, gone on",
        Bug::DuplicateRuns | Bug::DuplicateDropped => "two instances of what may be done again, a plain",
        Bug::ForgottenIsNew => "nodes that remember",
        Bug::AgesAsleep => "all are stopped",
        Bug::AnswerSentOnce => "two chains, one loss",
        Bug::EndSentOnce => "no room for answers",
        Bug::BusyBranchSpeaks => "a branch whose hop is lost",
        Bug::DurableElsewhere => "two instances of a durable",
        Bug::HopsNotShared => "branches that share too few hops",
        Bug::RefusalForgotten => "room for one chain",
        Bug::EarlyAnswerDropped | Bug::AnswersRenumbered => "no room for answers",
        Bug::ListenerGoneAtOnce => "a sub-chain that its service hears",
        Bug::AcceptedHeadless => "a state that comes late, or not, two",
        Bug::EntryForgotten => "an origin that nobody can dial, one crash",
        Bug::OneSourceAsked => "a function that is fetched, one crash",
        Bug::LeftNodeFound => "a service that is elsewhere",
        Bug::TwoOwners => "a service that moves",
        Bug::HarmlessErrorKept
        | Bug::LossOutlived
        | Bug::HeadlessBeats
        | Bug::HoldsWithoutBound
        | Bug::HeldUnweighed
        | Bug::HeardWithoutBound
        | Bug::CodeRidesFree
        | Bug::EndedListenersStay
        | Bug::OrphansGoOn
        | Bug::OrphansMoveOn
        | Bug::BranchesWithoutRoom
        | Bug::StrangersAccept
        | Bug::StrangersCancel
        | Bug::CancelNotPassedOn
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
        | Bug::EndsUnweighed
        // Rights to reply are not walked.
        | Bug::EndOvertakes
        | Bug::ReplyAfterEnd
        | Bug::DelegateNotCounted
        | Bug::LateNotTold
        | Bug::CountTwice
        | Bug::SetOutlivesReader
        | Bug::CancelMissesDelegate => return None,
    })
}

#[test]
fn every_seeded_bug_is_caught() {
    let missed: Vec<_> = Bug::ALL.iter().filter(|bug| !is_caught(**bug)).collect();
    assert!(missed.is_empty(), "no walk catches {missed:?}");
}

fn is_caught(bug: Bug) -> bool {
    let Some(begins) = shown_in(bug) else { return true };
    let setup = setups::all().into_iter().find(|setup| setup.name.starts_with(begins)).expect(begins);
    let name = setup.name;
    let promise = walk::broken_promise(Setup { bug: Some(bug), ..setup });
    println!("{bug:?}: {}: {name}", promise.unwrap_or("MISSED"));
    promise.is_some()
}
