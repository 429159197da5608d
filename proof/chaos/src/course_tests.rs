#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::collections::BTreeSet;

use catena::{Exception, Fault, exceptions};

use super::{Course, Told, What};
use crate::{
    chains::Ending,
    plan::{Effect, Function, Input, Plan, Step},
};

fn effect(index: usize) -> Step {
    let effect = Effect { chain: 0, index, before_ms: 0, after_ms: 0 };
    Step::Effect { service: "s".into(), function: Function::Take, effect }
}

fn sub(steps: Vec<Step>) -> Step {
    Step::Sub { service: "s".into(), steps }
}

fn split(branches: Vec<Vec<Step>>) -> Step {
    Step::Split { branches, at: None }
}

fn course(steps: Vec<Step>) -> Course {
    Course::of(&Plan { input: Input { steps, emits: false }, ..Plan::default() })
}

/// Effects as `branch:step`, in their order.
fn keys(course: &Course) -> Vec<String> {
    course.effects().map(|(place, ..)| format!("{}:{}", course.0[place].branch, course.0[place].step)).collect()
}

/// The failure of the call at this step of this branch, to this target.
fn failed(branch: &str, step: u32, target: Option<&str>) -> Exception {
    let why = Exception::new("NodeUnreachable", Fault::Network, "");
    Exception { step, branch: branch.parse().unwrap(), target: target.map(str::to_owned), ..why }
}

/// What an ending says of each effect: `+` took place, `-` did not, `?` perhaps.
fn told(course: &Course, ending: &Ending) -> String {
    let sign = |told| match told {
        Told::Done => '+',
        Told::Never => '-',
        Told::Perhaps => '?',
    };
    course.effects().map(|(place, ..)| sign(course.told(ending, place))).collect()
}

#[test]
fn steps_are_counted_as_a_chain_counts_them() {
    let branches = vec![vec![effect(1), split(vec![vec![effect(2)]])], vec![effect(3)]];
    let one_row = course(vec![effect(0), split(branches), split(vec![vec![effect(4)]]), effect(5)]);
    assert_eq!(keys(&one_row), [":1", ".1:3", ".1.1:5", ".2:3", ".3:4", ":4"]);
    let around = course(vec![effect(0), sub(vec![effect(1), sub(vec![effect(2)])]), effect(3)]);
    assert_eq!(keys(&around), [":1", ":3", ":5", ":6"], "sub-chains that join count on");
    let beside = course(vec![Step::Beside(vec![effect(0), sub(vec![effect(1), effect(2)]), effect(3)]), effect(4)]);
    assert_eq!(keys(&beside), [":1", ":1", ":2", ":3", ":4"], "one on its own counts for itself");
}

#[test]
fn what_comes_after_branches_comes_after_the_last_of_each() {
    let course = course(vec![effect(0), split(vec![vec![effect(1), effect(2)], vec![effect(3)]]), effect(4)]);
    let is_effect = |place: &usize| matches!(course.0[*place].what, What::Effect { .. });
    let before = |place: usize| course.0[place].before.iter().copied().filter(is_effect).collect::<BTreeSet<_>>().len();
    let counts: Vec<_> = course.effects().map(|(place, ..)| before(place)).collect();
    assert_eq!(counts, [0, 1, 2, 1, 4]);
}

#[test]
fn a_failure_speaks_of_what_came_before_it_and_after_it_but_not_of_other_branches() {
    let course = course(vec![effect(0), split(vec![vec![effect(1), effect(2)], vec![effect(3)]]), effect(4)]);
    for (branch, step, target, says) in [
        ("", 1, Some("s/take"), "-----"),
        ("", 2, Some("s/split"), "+----"),
        (".1", 3, Some("s/take"), "+--?-"),
        (".1", 4, Some("s/take"), "++-?-"),
        (".2", 3, None, "+??+-"),
        ("", 3, Some("s/take"), "++++-"),
    ] {
        assert_eq!(told(&course, &Ending::Failed(failed(branch, step, target))), says, "{branch}:{step}");
    }
}

#[test]
fn uncertainty_speaks_of_what_came_before_alone() {
    let course = course(vec![effect(0), split(vec![vec![effect(1), effect(2)], vec![effect(3)]]), effect(4)]);
    let unknown = |branch, step| Ending::Unknown(failed(branch, step, Some("s/take")).outcome_unknown());
    assert_eq!(told(&course, &unknown(".1", 4)), "++???");
    assert_eq!(told(&course, &unknown("", 3)), "++++?");
    // An origin that only heard of step 4 cannot say whose that was.
    let lost = Exception { name: "ChainLost".into(), ..failed("", 3, None) };
    assert_eq!(told(&course, &Ending::Unknown(lost)), "+????");
}

#[test]
fn what_failed_in_a_sub_chain_on_its_own_may_have_got_to_any_place_there() {
    let alone = course(vec![Step::Beside(vec![effect(0), sub(vec![effect(1), effect(2)])]), effect(3)]);
    assert_eq!(told(&alone, &Ending::Failed(failed("", 2, Some("other/take")))), "???-");
    let joined = course(vec![effect(0), sub(vec![effect(1), effect(2)]), effect(3)]);
    assert_eq!(told(&joined, &Ending::Failed(failed("", 2, Some("s/sub")))), "+---");
}

#[test]
fn an_exception_of_a_function_s_own_comes_after_all_that_it_did() {
    let own = |step, target| Ending::Failed(Exception { message: "on purpose".into(), ..failed("", step, target) });
    let straight = course(vec![effect(0), effect(1), Step::Throw]);
    assert_eq!(told(&straight, &own(2, None)), "++");
    let within = course(vec![effect(0), sub(vec![effect(1), Step::Throw]), effect(2)]);
    assert_eq!(told(&within, &own(2, Some("s/"))), "++-");
    assert!(!within.is_misnamed(&own(2, Some("s/"))));
    assert!(within.is_misnamed(&own(3, Some("s/"))), "it names the call that the sub-chain answers");
}

#[test]
fn an_exception_that_names_a_call_which_is_not_there_is_misnamed() {
    let course = course(vec![effect(0), split(vec![vec![effect(1)], vec![effect(2)]])]);
    let misnamed = |branch, step, target| course.is_misnamed(&Ending::Failed(failed(branch, step, Some(target))));
    assert!(!misnamed(".2", 3, "s/take"));
    assert!(misnamed("", 3, "s/take"), "no branch");
    assert!(misnamed(".2", 4, "s/take"), "no such step");
    assert!(misnamed("", 1, "other/take"), "another call");
    // What it may mean is still held against what took place, as far as it all says the same.
    assert_eq!(told(&course, &Ending::Failed(failed("", 3, Some("s/take")))), "+??");
}

#[test]
fn a_call_that_followed_its_service_has_a_later_number_and_so_has_all_that_comes_after_it() {
    let row = || course(vec![effect(0), effect(1), effect(2)]);
    let steps = |course: &Course| course.0.iter().map(|call| call.step).collect::<Vec<_>>();
    let mut followed = row();
    followed.follow(|place| [Some(1), Some(3), None][place], &Ending::Answered(3));
    assert_eq!(steps(&followed), [1, 3, 4]);
    let mut failed_later = row();
    let ending = Ending::Failed(failed("", 5, Some("s/take")));
    failed_later.follow(|place| [Some(1), None, None][place], &ending);
    assert_eq!((steps(&failed_later), failed_later.is_misnamed(&ending)), (vec![1, 5, 6], false));
    assert_eq!(told(&failed_later, &ending), "+--");
    // Of a chain that is lost only the step is said, which may be the first's under a later number.
    let mut lost = row();
    let ending = Ending::Unknown(Exception { name: exceptions::CHAIN_LOST.into(), ..failed("", 2, None) });
    lost.follow(|_| None, &ending);
    assert_eq!(steps(&lost), [2, 3, 4]);
    assert_eq!(told(&lost, &ending), "???");
    // Numbers never fall.
    let mut fallen = row();
    fallen.follow(|place| [Some(3), Some(2), None][place], &Ending::Answered(3));
    assert_eq!(steps(&fallen), [3, 4, 5]);
}
