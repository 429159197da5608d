#![allow(clippy::unwrap_used)]
use catena_wire::names;
use futures_util::future::join_all;
use tokio::{task::yield_now, time::Instant};

use super::*;
use crate::{Sandbox, tests::sandbox};

const ATTACKER: Owner = Owner::Other(1);
const HONEST: Owner = Owner::Other(2);

/// Loads something that is no module: `BadCode` if its turn to be compiled comes.
async fn load(sandbox: &Sandbox, owner: Owner, bytes: String) -> Exception {
    let function = sandbox.function(FunctionKind::Wasm, "test", bytes);
    sandbox.on_behalf_of(owner).load(function.hash(), &function.encode()).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_module_whose_turn_does_not_come_is_not_said_to_compile_slowly() {
    let sandbox = sandbox(None);
    let inner = sandbox.inner();
    let _others = inner.loading.compiles.acquire_many(2).await.unwrap();
    let refused = load(&sandbox, Owner::Own, "no module".to_owned()).await;
    assert_eq!((refused.name.as_str(), refused.fault), (names::OVERLOADED, Fault::Node), "{refused}");
    assert!(refused.message.contains("compiles_max"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn slow_modules_of_one_owner_hold_up_nobody_elses() {
    let sandbox = sandbox(None);
    let attackers = (0..300).map(|number| load(&sandbox, ATTACKER, format!("no module {number}")));
    // One is being compiled all the time.
    let _slow = sandbox.inner().loading.turn(ATTACKER).await.unwrap();
    let honest = async {
        // The attacker's are in line.
        yield_now().await;
        let (began, mut outcomes) = (Instant::now(), Vec::new());
        // The first is one that the attacker asked for before.
        for number in [7, 1_000, 1_001] {
            outcomes.push(load(&sandbox, HONEST, format!("no module {number}")).await.name);
        }
        (outcomes, began.elapsed())
    };
    let (attackers, honest) = tokio::join!(join_all(attackers), honest);
    assert_eq!(honest, (vec![names::BAD_CODE.to_owned(); 3], Duration::ZERO));
    let refused = |limit: &str| attackers.iter().filter(|refused| refused.message.contains(limit)).count();
    assert_eq!(
        (refused("loads_max"), refused("compiles_max")),
        (300 - 113, 113),
        "half of seven eighths, and one more"
    );
    assert!(sandbox.inner().loading.loads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn owners_compile_by_turns() {
    let loading = Loading::new(256, 1);
    let slow = loading.turn(ATTACKER).await.unwrap();
    let order = Mutex::new(Vec::new());
    let compile = async |owner| {
        let _turn = loading.turn(owner).await.unwrap();
        lock(&order).push(owner);
    };
    let attackers = join_all((0..3).map(|_| compile(ATTACKER)));
    let end = async { drop(slow) };
    tokio::join!(attackers, compile(HONEST), end);
    assert_eq!(order.into_inner().unwrap(), [HONEST, ATTACKER, ATTACKER, ATTACKER]);
}
