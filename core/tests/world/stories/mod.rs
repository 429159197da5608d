//! One test for each promise, named by it.

mod basics;
mod bounds;
mod broken;
pub(crate) mod cancelling;
mod composing;
mod durable;
mod ending;
mod failing_over;
pub(crate) mod orphans;
mod placing;
mod replicating;
mod splitting;

use crate::{
    expected::expected,
    guest::{Op, of_sub_chain, sub_chain_of},
    invariants,
    plan::{Chain, CodePlan, Crash, Cut, PlainCall, Plan, Rules},
    record::Record,
    services::{
        CAUGHT, CHAIN, FOREVER, FORKS, HEARS, NESTED, QUIET, REPLICATE, THROWS, TWICE, UNCERTAIN, at, durable, failing,
        recovered, slow, work,
    },
    sim::{Event, World, policy},
};

fn run(plan: &Plan) -> Record {
    let record = World::new(plan.clone()).run();
    invariants::check(plan, &record).unwrap();
    record
}

fn three_calls() -> Vec<Op> {
    vec![Op::Call(work(0)), Op::Call(work(1)), Op::Call(work(2))]
}

/// Runs it and compares what it returned with what is right.
fn run_rightly(plan: &Plan) -> Record {
    let record = run(plan);
    let expected = expected(&plan.chains[0].program, 1, plan.hops, plan.services());
    assert_eq!(Ok(record.only().returned()), expected.end);
    assert_eq!(record.only().partials.len(), expected.answers as usize);
    record
}

/// Answers that services heard of their sub-chains.
fn heard(record: &Record) -> usize {
    record.heard.values().map(Vec::len).sum()
}
