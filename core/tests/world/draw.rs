//! A plan from a seed: every fourth without a fault.

use catena_wire::{Mode, StepLimits};

use crate::{
    drawn::Rng,
    guest::Op,
    plan::{Chain, CodePlan, Crash, Cut, Nodes, PlainCall, Plan, Rules},
    services::{SUB_CHAINS, Target, at, durable, failing, slow, work},
};

pub(crate) fn plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed.wrapping_mul(0x1000_0001));
    let rng = &mut rng;
    let hosts = rng.range(2, 6) as usize;
    let services = rng.range(1, 6);
    let served: Vec<Vec<usize>> = (0..services).map(|_| servers(rng, hosts)).collect();
    let faulty = !seed.is_multiple_of(4);
    let far = rng.chance(50);
    let mut plan = Plan {
        seed,
        hosts,
        served,
        delay_us: if far { (10_000, 200_000) } else { (50, 2_000) },
        service_us: (1, rng.range(2, 100_000)),
        slow_us: if rng.chance(50) { 4_000_000 } else { 500_000 },
        rules: Rules { late_tail: if rng.chance(50) { 40 } else { 0 }, ..Rules::default() },
        crashes: Vec::new(),
        cuts: Vec::new(),
        code: code(rng, hosts, faulty),
        nodes: nodes(rng, hosts, services as u8),
        chains: (0..rng.range(1, 5)).map(|_| chain(rng, hosts, services as u8)).collect(),
        calls: (0..rng.range(0, 4)).map(|_| call(rng, hosts, services as u8)).collect(),
        time_us: 240_000_000,
        hops: 40,
    };
    if faulty {
        add_faults(rng, &mut plan);
    }
    if rng.chance(15) {
        add_undialled(rng, &mut plan);
    }
    plan
}

fn nodes(rng: &mut Rng, hosts: usize, services: u8) -> Nodes {
    let mut some = |likely: u64| -> Vec<usize> {
        let any = rng.chance(likely);
        (0..hosts).filter(|_| any && rng.chance(40)).collect()
    };
    let (no_guests, separate) = (some(15), some(15));
    let mut proxies = Vec::new();
    for service in 0..services {
        if rng.chance(6) {
            proxies.push((service, rng.range(0, hosts as u64) as usize));
        }
    }
    Nodes {
        repeatable: (0..services).filter(|_| rng.chance(30)).collect(),
        no_guests,
        proxies,
        separate,
        undialled: None,
        wider: 1,
        result_bytes: Vec::new(),
        message_bytes_max: None,
        bytes_per_s: rng.chance(50).then(|| [2_000, 100_000, 10_000_000][rng.range(0, 3) as usize]),
    }
}

/// One more host, which serves nothing and which nobody can dial; some of the chains are its own.
fn add_undialled(rng: &mut Rng, plan: &mut Plan) {
    plan.nodes.undialled = Some(plan.hosts);
    plan.hosts += 1;
    for chain in &mut plan.chains {
        if rng.chance(70) {
            chain.origin = plan.hosts - 1;
        }
    }
}

fn servers(rng: &mut Rng, hosts: usize) -> Vec<usize> {
    let first = rng.range(0, hosts as u64) as usize;
    let second = rng.range(0, hosts as u64) as usize;
    if rng.chance(30) && first != second { vec![first, second] } else { vec![first] }
}

fn code(rng: &mut Rng, hosts: usize, faulty: bool) -> CodePlan {
    let repository = rng.chance(50).then(|| rng.range(0, hosts as u64) as usize);
    CodePlan {
        ride: rng.chance(60),
        repository,
        stocked: rng.chance(70),
        wrong: faulty && rng.chance(15),
        everywhere: rng.chance(20),
        forgetful: faulty && rng.chance(10),
    }
}

fn chain(rng: &mut Rng, hosts: usize, services: u8) -> Chain {
    let mut program: Vec<Op> = (0..rng.range(1, 7)).map(|_| op(rng, services, 0)).collect();
    match rng.range(0, 22) {
        20 => program.push(Op::Rethrow),
        21 => program.push(Op::ThrowOwn),
        0 => program.push(Op::Throw),
        1 => program.push(Op::Stall),
        2 => {
            // Something must happen between two jumps, or it is the guest's own loop, which the sandbox stops and not the core.
            program.push(Op::Call(target(rng, services)));
            program.push(Op::Jump(0));
        }
        _ => {}
    }
    Chain {
        at_us: rng.range(0, 300_000),
        origin: rng.range(0, hosts as u64) as usize,
        program,
        mode: match rng.range(0, 10) {
            0 => Mode::Interactive,
            1 | 2 => Mode::Adaptive,
            _ => Mode::Chain,
        },
        compose: !rng.chance(15),
        cancel_after_us: rng.chance(8).then(|| rng.range(0, 2_000_000)),
        credentials: rng.chance(70).then(|| rng.next()),
        limits: limits(rng),
    }
}

fn limits(rng: &mut Rng) -> StepLimits {
    let mut some = || rng.chance(30).then(|| rng.range(1, 1 << 20) as u32);
    StepLimits {
        memory_bytes_max: some().map(u64::from),
        step_wall_ms_max: some(),
        output_bytes_max: some(),
        events_max: some(),
        continuation_bytes_max: some(),
    }
}

/// Some splits within splits.
fn split(rng: &mut Rng, services: u8, depth: u32) -> Op {
    let branches = (0..rng.range(1, 4)).map(|_| {
        let mut branch: Vec<Op> = (0..rng.range(0, 4)).map(|_| op(rng, services, depth + 1)).collect();
        branch.extend(rng.chance(10).then_some(Op::Throw));
        branch
    });
    let branches = branches.collect();
    Op::Split(branches, rng.chance(60).then(|| service(rng, services)))
}

fn op(rng: &mut Rng, services: u8, depth: u32) -> Op {
    match rng.range(0, 20) {
        16 | 17 if depth < 2 => split(rng, services, depth),
        18 | 19 => Op::Call(at(service(rng, services), SUB_CHAINS[rng.range(0, SUB_CHAINS.len() as u64) as usize])),
        0..=4 => Op::Call(target(rng, services)),
        5 | 6 => Op::Dynamic(services),
        7 | 8 => Op::Emit,
        9 => Op::Log,
        10 | 11 => Op::All((0..rng.range(2, 5)).map(|_| target(rng, services)).collect()),
        12 => Op::Race((0..rng.range(2, 4)).map(|_| willing(rng, services)).collect()),
        13 | 14 => tried(rng, services),
        _ => Op::Start(target(rng, services)),
    }
}

/// Its exception is forgotten, or held on to.
fn tried(rng: &mut Rng, services: u8) -> Op {
    let target = if rng.chance(50) { failing(service(rng, services)) } else { target(rng, services) };
    if rng.chance(40) { Op::Hold(target) } else { Op::Try(target) }
}

fn service(rng: &mut Rng, services: u8) -> u8 {
    rng.range(0, u64::from(services)) as u8
}

fn willing(rng: &mut Rng, services: u8) -> Target {
    let service = service(rng, services);
    match rng.range(0, 100) {
        0..5 => slow(service),
        5..25 => durable(service),
        _ => work(service),
    }
}

fn target(rng: &mut Rng, services: u8) -> Target {
    if rng.chance(4) {
        return at(service(rng, services), SUB_CHAINS[rng.range(0, SUB_CHAINS.len() as u64) as usize]);
    }
    if rng.chance(4) { failing(service(rng, services)) } else { willing(rng, services) }
}

fn call(rng: &mut Rng, hosts: usize, services: u8) -> PlainCall {
    PlainCall {
        at_us: rng.range(0, 1_000_000),
        from: rng.range(0, hosts as u64) as usize,
        target: target(rng, services),
        withdraw_after_us: rng.chance(30).then(|| rng.range(0, 200_000)),
    }
}

fn add_faults(rng: &mut Rng, plan: &mut Plan) {
    let mut percent = |likely: u64, high: u64| if rng.chance(likely) { rng.range(1, high) } else { 0 };
    plan.rules = Rules {
        drop: percent(40, 20),
        duplicate: percent(40, 40),
        reorder: percent(40, 50),
        delay: percent(30, 30),
        late_tail: percent(50, 60),
        no_tail: percent(20, 20),
        flap: percent(25, 15),
        stale_name: percent(20, 50),
        wrong_name: percent(20, 30),
    };
    if rng.chance(30) {
        plan.crashes = (0..rng.range(1, 3)).map(|_| crash(rng, plan.hosts)).collect();
    }
    if rng.chance(25) {
        plan.cuts = (0..rng.range(1, 3)).map(|_| cut(rng, plan.hosts)).filter(|cut| cut.from != cut.to).collect();
    }
    plan.time_us = rng.range(1_000_000, 60_000_000);
    if rng.chance(10) {
        plan.slow_us = 30_000_000;
    }
}

fn crash(rng: &mut Rng, hosts: usize) -> Crash {
    Crash {
        host: rng.range(0, hosts as u64) as usize,
        at_service: rng.range(1, 4),
        after_effect: rng.chance(50),
        kept: rng.chance(70),
        restart_after_us: rng.chance(70).then(|| rng.range(1_000, 3_000_000)),
    }
}

fn cut(rng: &mut Rng, hosts: usize) -> Cut {
    let at_us = rng.range(0, 2_000_000);
    let until_us = at_us + rng.range(1_000, 8_000_000);
    Cut {
        from: rng.range(0, hosts as u64) as usize,
        to: rng.range(0, hosts as u64) as usize,
        at_us,
        until_us,
        noticed_us: at_us + rng.range(1_000, 3_000_000),
    }
}
