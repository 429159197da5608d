#![allow(clippy::expect_used)]

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};

use super::*;

fn address(number: usize) -> String {
    format!("10.0.0.1:{number}")
}

#[tokio::test]
async fn a_stranger_s_addresses_are_few_and_those_of_the_mesh_are_not_among_them() {
    let dials = Dials::new(3);
    dials.tell(&address(0));
    for number in 1..=3 {
        assert!(dials.leave(&address(number)).await.is_some(), "{number}");
    }
    assert!(dials.leave(&address(4)).await.is_none(), "enough for a minute");
    assert!(dials.leave(&address(3)).await.is_some(), "no news to anybody there");
    for _ in 0..1_000 {
        assert!(dials.leave(&address(0)).await.is_some(), "the mesh's own");
    }
    assert!(lock(&dials.untold).take(&address(4), 3, Instant::now() + WINDOW), "a minute later");
}

#[tokio::test]
async fn whoever_is_there_costs_nothing() {
    let dials = Dials::new(1);
    for number in 0..1_000 {
        dials.leave(&address(number)).await.expect("the one before was reached").reached();
    }
    assert!(dials.leave(&address(1)).await.is_some());
    assert!(dials.leave(&address(2)).await.is_none());
}

#[tokio::test]
async fn no_address_but_those_of_the_mesh_if_there_may_be_none() {
    let dials = Dials::new(0);
    assert!(dials.leave(&address(1)).await.is_none());
}

#[tokio::test]
async fn few_are_dialled_at_a_time() {
    let dials = Dials::new(usize::MAX);
    let mut leaves = Vec::new();
    for number in 0..DIALS_AT_ONCE_MAX {
        leaves.push(dials.leave(&address(number)).await);
    }
    let one_more = address(99);
    let mut waits = pin!(dials.leave(&one_more));
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(cx).is_pending());
    dials.tell(&address(100));
    assert!(dials.leave(&address(100)).await.is_some(), "the mesh's own do not wait for a stranger's");
    leaves.pop();
    assert!(waits.as_mut().poll(cx).is_ready());
}
