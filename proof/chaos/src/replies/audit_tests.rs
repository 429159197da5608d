use super::*;
use crate::faults::Fault;

const BEGAN_MS: u64 = 1_000;
/// When its reader left.
const LEFT_MS: u64 = 2_000;
/// Of the server that others pass on, which sleeps meanwhile.
const SLEEPS_MS: (u64, u64) = (LEFT_MS + 200, LEFT_MS + 6_900);
/// Of its caller, which dies.
const DOWN_MS: u64 = 100;
/// After it woke, later than a word to stop may take.
const LATE_MS: u64 = SLEEPS_MS.1 + STRAGGLING_MS_MAX + 300;

fn branch(node: usize, passed: Vec<Branch>) -> Branch {
    let rows = vec![(10 * node, 10)];
    Branch { trial: 7, service: format!("effects.{node}"), rows, pause_ms: 50, delegated: Vec::new(), passed }
}

/// Whether a reply of node 2, which node 1 passes on, is one too many at this time: the reader has left, and node 2 slept.
fn ran_on(at_ms: u64, besides: Option<Outage>) -> usize {
    ran_on_in(branch(1, vec![branch(2, Vec::new())]), at_ms, besides)
}

fn ran_on_in(tree: Branch, at_ms: u64, besides: Option<Outage>) -> usize {
    let asked = Asked {
        trial: 7,
        kind: Kind::Dropped,
        tree,
        ending: Ending::Dropped,
        came: Vec::new(),
        why: None,
        after_end: 0,
        began_ms: BEGAN_MS,
        at_ms: LEFT_MS,
    };
    let sleeps = Outage { fault: Fault::LongStop, node: 2, from_ms: SLEEPS_MS.0, to_ms: SLEEPS_MS.1 };
    let effects = Effects::from([((7, 20), vec![Run { node: 2, by_twin: false, at_ms, key: None }])]);
    asked.hold(&effects, &Outages([sleeps].into_iter().chain(besides).collect())).0.ran_on
}

#[test]
fn a_server_that_slept_while_its_caller_died_may_go_on_until_the_calls_time_is_out() {
    let dies = |from_ms| Some(Outage { fault: Fault::Kill, node: 1, from_ms, to_ms: from_ms + DOWN_MS });
    assert_eq!(ran_on(LATE_MS, None), 1, "it was told while it slept");
    assert_eq!(ran_on(LATE_MS, dies(SLEEPS_MS.1 - 1_000)), 0, "what it was told has gone with the link");
    assert_eq!(ran_on(LATE_MS, dies(LATE_MS + 4_000)), 1, "it had been told by then");
    let timeout_ms = u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let times_out_ms = BEGAN_MS + timeout_ms + (SLEEPS_MS.1 - SLEEPS_MS.0) + DOWN_MS;
    assert_eq!(ran_on(times_out_ms, dies(SLEEPS_MS.1 - 1_000)), 0, "the call may have waited at both");
    assert_eq!(ran_on(times_out_ms + STRAGGLING_MS_MAX + 1, dies(SLEEPS_MS.1 - 1_000)), 1, "but no longer");
}

#[test]
fn a_server_that_wakes_while_whoever_asked_it_sleeps_may_go_on_until_both_are_there() {
    let wakes_ms = SLEEPS_MS.1;
    let falls_asleep_ms = wakes_ms - 3_000;
    let sleeps = |from_ms, to_ms| Some(Outage { fault: Fault::LongStop, node: 1, from_ms, to_ms });
    assert_eq!(ran_on(LATE_MS, sleeps(falls_asleep_ms, LATE_MS + 1_000)), 0, "nobody could tell it");
    assert_eq!(ran_on(LATE_MS + 1_000, sleeps(falls_asleep_ms, LATE_MS)), 0, "both were there for a second only");
    assert_eq!(ran_on(LATE_MS + 1_000, sleeps(falls_asleep_ms, wakes_ms)), 1, "both were there for long");
    assert_eq!(ran_on(LATE_MS, sleeps(LATE_MS - 100, LATE_MS + 1_000)), 1, "it had been told by then");
    let timeout_ms = BEGAN_MS + u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let times_out_ms = timeout_ms + (SLEEPS_MS.1 - SLEEPS_MS.0) + (timeout_ms - falls_asleep_ms);
    let for_long = sleeps(falls_asleep_ms, 2 * times_out_ms);
    assert_eq!(ran_on(times_out_ms, for_long), 0, "the call may have waited at both");
    assert_eq!(ran_on(times_out_ms + 1, for_long), 1, "its time is out");
}

#[test]
fn a_server_is_told_by_whoever_asked_for_its_replies_not_by_whoever_delegated_to_it() {
    let sleeps = Some(Outage { fault: Fault::LongStop, node: 1, from_ms: SLEEPS_MS.1 - 3_000, to_ms: LATE_MS + 1_000 });
    let delegated = |to| Branch { delegated: vec![to], ..branch(1, Vec::new()) };
    assert_eq!(ran_on_in(delegated(branch(2, Vec::new())), LATE_MS, sleeps), 1, "by the call's origin");
    let below = Branch { rows: Vec::new(), delegated: vec![branch(2, Vec::new())], ..branch(3, Vec::new()) };
    assert_eq!(ran_on_in(branch(1, vec![below.clone()]), LATE_MS, sleeps), 0, "by node 1, which sleeps");
    assert_eq!(ran_on_in(branch(3, vec![branch(4, vec![below])]), LATE_MS, sleeps), 1, "node 1 has no part in it");
    let above = branch(3, vec![branch(1, vec![branch(4, vec![branch(2, Vec::new())])])]);
    assert_eq!(ran_on_in(above.clone(), LATE_MS, sleeps), 1, "node 4 had been told by node 1 before that slept");
    let slept_before = sleeps.map(|it| Outage { from_ms: LEFT_MS - 100, ..it });
    assert_eq!(ran_on_in(above, LATE_MS, slept_before), 0, "node 4 could not be told");
}
