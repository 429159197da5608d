use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::Waker,
};

use super::*;

#[test]
fn no_more_are_busy_than_there_are_cores_and_each_gets_its_turn() {
    let cores = CORES.available_permits();
    let steps = Arc::new(AtomicUsize::new(0));
    let guest = || {
        let steps = Arc::clone(&steps);
        InTurn::new(async move {
            for _ in 0..3 {
                steps.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        })
    };
    let cx = &mut Context::from_waker(Waker::noop());
    let mut guests: Vec<_> = (0..10).map(|_| guest()).collect();
    let held: Vec<_> = (0..cores).filter_map(|_| Arc::clone(&CORES).try_acquire_owned().ok()).collect();
    for _ in 0..3 {
        assert!(guests.iter_mut().all(|guest| Pin::new(guest).poll(cx).is_pending()));
    }
    assert_eq!(steps.load(Ordering::SeqCst), 10, "each once, and then no core was free");
    drop(held);
    while !guests.is_empty() {
        guests.retain_mut(|guest| Pin::new(guest).poll(cx).is_pending());
        assert_eq!(CORES.available_permits(), cores, "nobody keeps one");
    }
    assert_eq!(steps.load(Ordering::SeqCst), 30);
}
