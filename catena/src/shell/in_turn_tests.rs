#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::Waker,
};

use super::*;

#[test]
fn no_more_are_busy_than_there_are_cores_and_each_gets_its_turn() {
    // Its own: other tests of this process have guests, too.
    const CORES: usize = 2;
    let cores = Arc::new(Semaphore::new(CORES));
    let steps = Arc::new(AtomicUsize::new(0));
    let guest = || {
        let steps = Arc::clone(&steps);
        InTurn::among(Arc::clone(&cores), async move {
            for _ in 0..3 {
                steps.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        })
    };
    let cx = &mut Context::from_waker(Waker::noop());
    let mut guests: Vec<_> = (0..10).map(|_| guest()).collect();
    let held = cores.try_acquire_many(CORES as u32).unwrap();
    for _ in 0..3 {
        assert!(guests.iter_mut().all(|guest| Pin::new(guest).poll(cx).is_pending()));
    }
    assert_eq!(steps.load(Ordering::SeqCst), 10, "each once, and then no core was free");
    drop(held);
    while !guests.is_empty() {
        guests.retain_mut(|guest| Pin::new(guest).poll(cx).is_pending());
        assert_eq!(cores.available_permits(), CORES, "nobody keeps one");
    }
    assert_eq!(steps.load(Ordering::SeqCst), 30);
}

/// Yields as a guest does at the end of its slice.
async fn stand_aside() {
    let mut stood = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stood, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn sockets_are_looked_after_between_two_turns_of_a_thread() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    const ROUNDS: usize = 50;
    /// The most turns of all guests during half of the round trips of a byte; it would be sixty if nothing polled the driver. Others may take as long as the
    /// system lets this thread wait.
    const TURNS_MAX: usize = 20;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let turns = Arc::clone(&turns);
        let guest = async move {
            loop {
                turns.fetch_add(1, Ordering::SeqCst);
                stand_aside().await;
            }
        };
        runtime.spawn(InTurn::new(guest));
    }
    // Counted by the guests' own thread, so that it does not matter how long this thread takes to ask for the rounds.
    let rounds = runtime.spawn(async move {
        let (mut near, mut far) = tokio::net::UnixStream::pair().unwrap();
        tokio::spawn(async move {
            while let Ok(byte) = far.read_u8().await {
                far.write_u8(byte).await.unwrap();
            }
        });
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let before = turns.load(Ordering::SeqCst);
            near.write_u8(1).await.unwrap();
            near.read_u8().await.unwrap();
            rounds.push(turns.load(Ordering::SeqCst) - before);
        }
        rounds.sort_unstable();
        rounds
    });
    let turns = runtime.block_on(rounds).unwrap();
    assert!(turns[ROUNDS / 2] < TURNS_MAX, "{turns:?} turns");
}

#[test]
fn a_busy_guest_that_cannot_yield_takes_no_worker_from_others() {
    use std::{sync::mpsc::sync_channel, time::Duration};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (enters, entered) = tokio::sync::oneshot::channel();
    let (lets_go, let_go) = sync_channel(1);
    let guest = runtime.spawn(InTurn::new(async move {
        stand_aside().await;
        enters.send(()).unwrap();
        let_go.recv_timeout(Duration::from_secs(60))
    }));
    runtime.spawn(async move {
        entered.await.unwrap();
        lets_go.send(()).unwrap();
    });
    assert_eq!(runtime.block_on(guest).unwrap(), Ok(()), "the other task ran meanwhile");
}
