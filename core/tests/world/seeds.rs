//! Runs drawn at random: thousands by default, as many as `CATENA_SEEDS` says for a longer look.

use catena_wire::{Exception, Outcome};

use crate::{
    draw,
    drawn::{all_hold, chosen, seeds},
    invariants,
    record::{Record, Seen},
    sim::World,
};

const SEEDS: u64 = 20_000;

fn run(seed: u64, tracing: bool) -> Record {
    let mut world = World::new(draw::plan(seed));
    world.tracing = tracing;
    world.run()
}

fn judge(seed: u64) -> Result<(), String> {
    let plan = draw::plan(seed);
    let record = std::panic::catch_unwind(|| run(seed, false)).map_err(|_| "it panicked, see above")?;
    invariants::check(&plan, &record)
}

#[test]
fn whatever_goes_wrong_every_chain_ends_as_promised() {
    if let Some(seed) = chosen() {
        println!("{:#?}", draw::plan(seed));
        let mut world = World::new(draw::plan(seed));
        world.printing = true;
        world.run();
    }
    all_hold(seeds(SEEDS), judge);
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    for seed in 0..100 {
        let (first, second) = (run(seed, true).trace, run(seed, true).trace);
        assert!(!first.is_empty() && first == second, "seed {seed} ran differently the second time");
    }
}

#[test]
fn the_seeds_reach_what_they_are_meant_to_reach() {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    let (mut all, mut excused) = (0, 0);
    for seed in 0..1_500 {
        let record = run(seed, false);
        for sent in &record.sent {
            *kinds.entry(sent.kind.to_string()).or_default() += 1;
            let branch = sent.key.as_ref().map(|key| key.branch.clone()).unwrap_or_default();
            let within = ["", "branch", "branch of a branch"][branch.to_string().matches('.').count().min(2)];
            *kinds.entry(within.to_string()).or_default() += 1;
        }
        let elsewhere = record.ran.values().filter(|ran| ran.repeatable && ran.on.len() > 1).count();
        let cancelled = record.chains.values().filter(|seen| seen.cancelled_at_us.is_some()).count();
        all += record.chains.len();
        excused += record.chains.values().filter(|seen| record.went_on.contains(&seen.run)).count();
        let heard = record.heard.len();
        count_endings(&record, &mut kinds);
        for (kind, count) in [("heard", heard), ("done elsewhere", elsewhere), ("cancelled in time", cancelled)] {
            if count > 0 {
                *kinds.entry(kind.to_string()).or_default() += count;
            }
        }
        for (outcome, ..) in record.chains.values().filter_map(|seen| seen.ends.first()) {
            let name = match outcome {
                catena_wire::Outcome::Done(_) => "done".to_string(),
                catena_wire::Outcome::Threw(why) => why.name.clone(),
            };
            *kinds.entry(name).or_default() += 1;
        }
    }
    assert!(excused * 10 < all, "of {all} chains {excused} went on after an unknown outcome: too many to judge by");
    let wanted = [
        "hop",
        "accepted",
        "refused",
        "partial",
        "end",
        "heartbeat",
        "call",
        "return",
        "withdraw",
        "want",
        "code",
        "nocode",
        "done",
        "Oops",
        "Thrown",
        "Stalled",
        "HopBudgetExceeded",
        "NodeUnreachable",
        "NodeLost",
        "ChainLost",
        "CodeMissing",
        "UnknownService",
        "DeadlineExceeded",
        "relay",
        "cancel",
        "Cancelled",
        "heard",
        "branch",
        "branch of a branch",
        "done elsewhere",
        "cancelled in time",
        "failed at a step",
        "unknown",
        "thrown while uncertain",
        "thrown after it went on",
        "asked of a store again",
        "answered from a store",
    ];
    let missing: Vec<_> = wanted.iter().filter(|kind| !kinds.contains_key(**kind)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}; seen: {kinds:?}");
}

/// How the chains ended, and what came of steps that outlived their node.
fn count_endings(record: &Record, kinds: &mut std::collections::BTreeMap<String, usize>) {
    let mut count = |kind: &str, times: usize| {
        if times > 0 {
            *kinds.entry(kind.to_string()).or_default() += times;
        }
    };
    let ends = || record.chains.values().filter(|seen| !seen.ends.is_empty());
    let threw = |judge: &dyn Fn(&Seen, &Exception) -> bool| {
        ends().filter(|seen| matches!(seen.outcome(), Outcome::Threw(why) if judge(seen, why))).count()
    };
    count("unknown", threw(&|_, why| why.unknown));
    count("failed at a step", threw(&|_, why| !why.unknown && why.target.is_some()));
    count("thrown after it went on", threw(&|seen, why| why.branch.is_root() && why.step < seen.last_step));
    count("thrown while uncertain", record.uncaught.iter().filter(|thrown| thrown.uncertain).count());
    count("asked of a store again", record.asked_again);
    count("answered from a store", record.answered_from_store);
}
