//! Locks: words of a segment that are taken by CAS, by many at a time; two never hold one.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use catena::{Exception, Fault, Imported, Lookup, exceptions};

use crate::{
    board::{Board, LOCKS, word},
    data::{Seen, Went, watch},
    kinds::Kind,
    rng::Rng,
    trials::Origin,
};

const ROUNDS: (u64, u64) = (2, 7);
const HELD_MS_MAX: u64 = 25;
const TRIES_MAX: usize = 200;
const TRY_EVERY: Duration = Duration::from_millis(5);

/// Who holds which lock of which life. All that compete for locks are in this process, so this is exact.
#[derive(Default)]
pub(crate) struct Holders(Mutex<HashMap<(u64, usize), u64>>);

impl Holders {
    /// Who holds it already, if anybody does.
    fn enter(&self, lock: (u64, usize), me: u64) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lock, me)
    }

    fn leave(&self, lock: (u64, usize)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&lock);
    }
}

pub(crate) async fn one(origin: &Origin<'_>, mut rng: Rng, trial: usize) -> Went {
    let owner = rng.below(origin.nodes);
    watch(Kind::Lock, trial, vec![owner], async |seen| {
        let board = Board::import(origin, owner, trial, Lookup::default(), seen).await?;
        for round in 0..rng.range(ROUNDS.0, ROUNDS.1) {
            // Unique, so that a CAS that arrives late cannot release another holder's lock.
            let me = (trial as u64 + 1) << 8 | round;
            let held = Duration::from_millis(rng.range(0, HELD_MS_MAX));
            hold(&origin.holders, &board, rng.below(LOCKS), me, held, seen).await?;
        }
        Ok(())
    })
    .await
}

async fn hold(
    holders: &Holders,
    board: &Board,
    lock: usize,
    me: u64,
    held: Duration,
    seen: &mut Seen,
) -> Result<(), Exception> {
    let (imported, at) = (&board.imported, Board::lock_at(lock));
    if let Err(why) = acquire(imported, at, me).await {
        // The CAS may have succeeded unnoticed, so the lock is released.
        let _ = imported.cas(at, me, 0).await;
        return Err(why);
    }
    let name = (board.life_us, lock);
    if let Some(other) = holders.enter(name, me) {
        seen.wrong.push(format!("lock {lock} of life {} is held by {other:#x} and {me:#x}", board.life_us));
    }
    tokio::time::sleep(held).await;
    let found = word(imported, at).await;
    holders.leave(name);
    let let_go = imported.cas(at, me, 0).await;
    for (what, was) in [("read", found?), ("let go", let_go?)] {
        if was != me {
            seen.wrong.push(format!(
                "lock {lock} of life {} was {was:#x} when {me:#x}, who held it, {what} it",
                board.life_us
            ));
        }
    }
    Ok(())
}

async fn acquire(imported: &Imported, at: u64, me: u64) -> Result<(), Exception> {
    for _ in 0..TRIES_MAX {
        if imported.cas(at, 0, me).await? == 0 {
            return Ok(());
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
    let why = "others hold it, or one that never heard that it had it";
    Err(Exception::new(exceptions::OVERLOADED, Fault::Service, why))
}
