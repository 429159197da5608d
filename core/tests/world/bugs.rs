//! The tests of the testers: mistakes that no small world shows are caught by a test of one node.

use std::cell::Cell;

use catena_core::{Bug, Policy};

use crate::{
    shown_by::{Suite, shown_by},
    solo::{basics, duplicates, elsewhere, forged, listening, room, shares, splits, steps, strays, uncertainty, waits},
    stories::{cancelling, orphans},
};

// Each test runs on a thread of its own.
thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// With the mistake that is being looked for on this thread, if one is.
pub(crate) fn seeded(policy: Policy) -> Policy {
    Policy { bug: BUG.get(), ..policy }
}

const CAUGHT_BY: &[(Bug, fn())] = &[
    (Bug::HoldsWithoutBound, basics::the_next_answer_in_order_finds_room_when_all_the_room_is_taken),
    (Bug::HeldUnweighed, basics::what_is_held_back_is_weighed_as_well_as_counted),
    (Bug::HeardWithoutBound, basics::branches_are_heard_of_only_as_far_as_there_is_room),
    (Bug::CodeRidesFree, room::a_function_that_rides_along_counts_until_nobody_needs_it),
    (Bug::EndedListenersStay, listening::who_listens_to_what_has_ended_takes_no_room_from_who_listens_yet),
    (Bug::OrphansGoOn, orphans::a_sub_chain_on_its_own_whose_creator_died_ends_a_minute_later),
    (Bug::OrphansMoveOn, orphans::an_orphan_that_moves_on_ends_no_later),
    (Bug::StrangersAccept, basics::only_the_node_that_was_asked_may_accept_or_refuse_a_hop),
    (Bug::AnyBranchAccepts, basics::a_later_step_of_another_chain_or_branch_accepts_no_hop),
    (Bug::SilencesAddUp, steps::a_chain_that_is_heard_of_after_each_silence_is_never_given_up),
    (Bug::StrangersCancel, forged::only_its_origin_and_whoever_brought_a_chain_may_stop_it),
    (Bug::StrangersReceive, forged::only_its_origin_says_that_an_answer_has_arrived),
    (Bug::DuplicateReplaced, duplicates::the_earliest_step_stays_and_the_way_changes),
    (Bug::HarmlessErrorKept, duplicates::what_the_first_instance_may_have_done_is_told_although_the_second_did_nothing),
    (Bug::LossOutlived, duplicates::what_the_first_instance_may_have_done_is_told_although_the_second_did_nothing),
    (Bug::HeadlessBeats, waits::a_hop_whose_state_never_comes_is_its_senders),
    (Bug::AnswersUncounted, splits::a_chain_whose_branches_answers_cannot_all_be_counted_is_cut_off_at_the_merge),
    (Bug::BranchesWithoutRoom, splits::branches_that_find_no_room_when_they_begin_end_as_overloaded),
    (Bug::StraysGoOn, strays::a_chain_that_is_over_is_stopped_where_it_was_given_up),
    (Bug::StraysGoOn, strays::an_origin_takes_no_new_step_of_a_chain_of_its_own_that_is_over),
    (Bug::LateNewsCounts, elsewhere::that_a_service_is_elsewhere_is_no_answer_to_a_call_that_was_sent_again_meanwhile),
    (Bug::CancelSentOnce, cancelling::a_cancellation_that_a_cut_link_loses_is_sent_again),
    (Bug::CancelNotPassedOn, cancelling::a_cancellation_reaches_every_branch),
    (Bug::EntryForgetsHosts, forged::the_node_by_which_a_chain_entered_stops_it_wherever_it_was_heard_of),
    (Bug::LateCallDenied, waits::a_call_that_went_out_and_has_no_time_for_another_try_may_have_been_made),
    (
        Bug::SetsUncertaintyForgotten,
        uncertainty::a_function_that_misses_replies_and_throws_its_own_is_as_uncertain_as_their_call,
    ),
    (Bug::BranchUncertaintyForgotten, uncertainty::uncertainty_of_a_branch_is_its_parents_once_that_is_told),
    (Bug::StrangersEvict, shares::a_strangers_cancellations_make_nobody_elses_forgotten),
    (Bug::StrangersEvict, shares::a_strangers_possible_duplicates_make_no_fence_of_others_forgotten),
    (Bug::RefusedFences, shares::what_is_refused_fences_nobody),
    (Bug::PeerTakesAll, shares::parameters_of_one_peers_waiting_calls_leave_room_for_those_of_others),
    (Bug::PeerTakesAll, shares::one_peers_sleeping_calls_leave_room_for_others_and_for_this_node),
    (Bug::RepeatsAlwaysAnswered, steps::what_became_of_a_step_is_told_again_once_in_a_while),
    (Bug::EndsUnweighed, splits::ends_of_branches_are_kept_only_where_there_is_room),
    (Bug::NumbersHaveShares, shares::numbers_of_one_address_have_one_share_and_none_takes_what_is_the_nodes_own),
    (Bug::FirstWayNotFenced, duplicates::the_first_way_that_comes_after_a_possible_duplicate_is_refused),
];

#[test]
fn every_bug_that_no_small_world_shows_is_caught_by_a_test_of_one_node() {
    let has_test = |bug: &Bug| CAUGHT_BY.iter().any(|(caught, _)| caught == bug);
    let missed: Vec<_> =
        Bug::ALL.into_iter().filter(|bug| shown_by(*bug).0 == Suite::World && !has_test(bug)).collect();
    assert!(missed.is_empty(), "no test catches {missed:?}");
    let fails = |test: fn()| std::panic::catch_unwind(test).is_err();
    for (bug, test) in CAUGHT_BY {
        assert!(!fails(*test), "{bug:?}: its test fails without it");
        BUG.set(Some(*bug));
        let caught = fails(*test);
        BUG.set(None);
        assert!(caught, "{bug:?} is not caught");
    }
}
