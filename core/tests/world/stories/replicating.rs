//! Replication as a chain (rpc-chains section 4.1): a service answers with a chain that writes at its own node, the primary, and then
//! at the backup; who calls knows nothing of it.

use std::collections::BTreeMap;

use catena_wire::{Exception, Mode, Outcome};

use super::*;

/// Services 0 and 1 are primary and backup; service 3 comes after them.
fn replicated(mode: Mode, compose: bool) -> Plan {
    let mut plan = Plan::simple(5, vec![Op::Call(at(0, REPLICATE)), Op::Call(work(3))]);
    (plan.chains[0].mode, plan.chains[0].compose) = (mode, compose);
    plan
}

/// How often it was written: at the primary, at the backup.
fn written(record: &Record) -> (u32, u32) {
    let (run, own) = sub_chain_of((1, 0, 0));
    let times = |call| record.effects.get(&(run, own, call)).copied().unwrap_or_default();
    (times(0), times(1))
}

#[test]
fn a_write_goes_to_the_primary_in_place_and_then_to_the_backup() {
    let record = run_rightly(&replicated(Mode::Chain, true));
    assert_eq!(written(&record), (1, 1));
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 4)], "from the backup straight on");
    let record = run_rightly(&replicated(Mode::Chain, false));
    assert_eq!(written(&record), (1, 1));
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (1, 4)], "back over the primary");
}

fn faults(seed: u64) -> (Rules, Vec<Crash>) {
    let wrong_name = if seed.is_multiple_of(3) { 20 } else { 0 };
    let rules = Rules { drop: 5, duplicate: 20, reorder: 30, delay: 10, late_tail: 20, flap: 4, ..Rules::default() };
    let rules = Rules { wrong_name, ..rules };
    let crash = |host| Crash {
        host,
        at_service: if host == 1 { 1 + seed / 4 % 2 } else { 1 },
        after_effect: (seed / 8).is_multiple_of(2),
        kept: false,
        restart_after_us: (seed / 16).is_multiple_of(2).then_some(50_000),
    };
    (rules, [1, 2, 4].into_iter().nth((seed % 7) as usize).map(crash).into_iter().collect())
}

/// What must have been written, if it is known, by what failed.
fn promised(why: &Exception) -> Option<[(u32, u32); 2]> {
    let unknown = u32::from(why.unknown);
    match why.target.as_deref()? {
        "s0/work" => Some([(0, 0), (unknown, 0)]),
        "s1/work" => Some([(1, 0), (1, unknown)]),
        "s3/work" => Some([(1, 1), (1, 1)]),
        // The whole of it.
        _ if why.unknown => None,
        _ => Some([(0, 0), (0, 0)]),
    }
}

#[test]
fn whatever_goes_wrong_both_are_written_once_or_it_is_said_which_is_not() {
    let mut endings = BTreeMap::<&str, usize>::new();
    for seed in 0..1_200 {
        let mode = if seed % 5 == 0 { Mode::Interactive } else { Mode::Chain };
        let (rules, crashes) = faults(seed);
        let plan = Plan { seed, rules, crashes, ..replicated(mode, seed % 2 == 0) };
        let record = run(&plan);
        let written = written(&record);
        assert!(written.0 <= 1 && written.1 <= 1, "seed {seed}: {written:?}");
        let ending = match record.only().outcome() {
            Outcome::Done(_) => {
                assert_eq!(written, (1, 1), "seed {seed}");
                "answered"
            }
            Outcome::Threw(why) => {
                let promised = promised(why);
                assert!(promised.is_none_or(|either| either.contains(&written)), "seed {seed}: {written:?}: {why}");
                if why.unknown { "unknown" } else { "failed" }
            }
        };
        *endings.entry(ending).or_default() += 1;
    }
    println!("{endings:?}");
    assert!(endings.len() == 3 && endings.values().all(|count| *count > 5), "{endings:?}");
}
