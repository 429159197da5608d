//! One test for each promise, named by it.

mod basics;
mod broken;

use crate::{
    expected::expected,
    guest::Op,
    invariants,
    plan::{Chain, CodePlan, Cut, PlainCall, Plan, Rules},
    record::Record,
    services::{failing, slow, work},
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
