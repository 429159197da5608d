//! Locks: words of a segment that are taken by CAS, by many at a time; two never hold one.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
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

/// A lock of one life of a node: when that life began, in microseconds, and the number of the lock.
type Lock = (u64, usize);

/// Who holds which lock. All that compete for locks are in this process, so this is exact.
#[derive(Default)]
pub(crate) struct Holders(Mutex<Locks>);

#[derive(Default)]
struct Locks {
    held: HashMap<Lock, u64>,
    /// Locks and who may hold them without knowing: they were not told the outcome when they took or released it. Such a lock may block
    /// everybody until the node that has it ends.
    leaked: HashSet<(Lock, u64)>,
}

impl Holders {
    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who holds it already, if anybody does.
    fn enter(&self, lock: Lock, me: u64) -> Option<u64> {
        self.locks().held.insert(lock, me)
    }

    fn leave(&self, lock: Lock) {
        self.locks().held.remove(&lock);
    }

    fn leak(&self, lock: Lock, me: u64) {
        self.locks().leaked.insert((lock, me));
    }

    fn has_let_go(&self, lock: Lock, me: u64) {
        self.locks().leaked.remove(&(lock, me));
    }

    fn has_leaked(&self, lock: Lock) -> bool {
        self.locks().leaked.iter().any(|(leaked, _)| *leaked == lock)
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
    let (imported, at, name) = (&board.imported, Board::lock_at(lock), (board.life_us, lock));
    match acquire(imported, at, me).await {
        Ok(true) => {}
        Ok(false) if holders.has_leaked(name) => return Ok(()),
        Ok(false) => {
            seen.is_blocked = true;
            let why = "others hold it, and each of them knows that it does";
            return Err(Exception::new(exceptions::OVERLOADED, Fault::Service, why));
        }
        Err(why) => {
            // The CAS may have succeeded unnoticed, or succeed when it arrives later than this release.
            holders.leak(name, me);
            if imported.cas(at, me, 0).await.ok() == Some(me) {
                holders.has_let_go(name, me);
            }
            return Err(why);
        }
    }
    if let Some(other) = holders.enter(name, me) {
        seen.wrong.push(format!("lock {lock} of life {} is held by {other:#x} and {me:#x}", board.life_us));
    }
    tokio::time::sleep(held).await;
    let found = word(imported, at).await;
    holders.leave(name);
    holders.leak(name, me);
    let let_go = imported.cas(at, me, 0).await;
    if let_go.is_ok() {
        holders.has_let_go(name, me);
    }
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

/// Whether the lock is ours now, or was held by others at each try.
async fn acquire(imported: &Imported, at: u64, me: u64) -> Result<bool, Exception> {
    for _ in 0..TRIES_MAX {
        if imported.cas(at, 0, me).await? == 0 {
            return Ok(true);
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
    Ok(false)
}
