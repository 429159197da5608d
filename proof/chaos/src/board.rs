//! The segment that every node exports: the life of its node, locks, and a slot for each trial.

use std::time::Duration;

use catena::{Exception, Export, Imported, Lookup, Node, Rights, Segment};

use crate::{Failure, data::Seen, flaw::Flaw, ledger::now_ms, rng::Rng, trials::Origin};

const NAME: &str = "board";
/// Words that are locks, after the word that says when the node's life began.
pub(crate) const LOCKS: usize = 4;
const LOCKS_AT: u64 = 8;
const SLOTS_AT: u64 = 4_096;
pub(crate) const SLOT_BYTES: u64 = 512;
/// More than trials of one part, so that each has its own.
const SLOTS: u64 = 4_096;
/// How often a node with this flaw changes words that are not its own.
const SCRIBBLE_EVERY: Duration = Duration::from_millis(3);

/// Exports it, with the time at which this life begins, in microseconds: no other run of the node has the same.
pub(crate) fn export(node: &Node, flaw: Option<Flaw>) -> Result<Segment, Failure> {
    let how = Export { anyone: Rights::ALL, ..Export::default() };
    let board = node.export(NAME, SLOTS_AT + SLOTS * SLOT_BYTES, how)?;
    let life_us = node.client().unix_us();
    board.write(0, &life_us.to_ne_bytes())?;
    if flaw == Some(Flaw::Wrong) {
        tokio::spawn(scribble(board.clone(), life_us));
    }
    Ok(board)
}

/// Misbehaves as [`Flaw::Wrong`] says: releases others' locks, writes into slots, and poses as another life of the node.
async fn scribble(board: Segment, life_us: u64) {
    let mut rng = Rng::new(life_us);
    loop {
        tokio::time::sleep(SCRIBBLE_EVERY).await;
        let other_life = life_us + rng.range(0, 2);
        let _ = board.write(0, &other_life.to_ne_bytes());
        let _ = board.write(LOCKS_AT, &[0; 8 * LOCKS]);
        for slot in 0..SLOTS {
            let _ = board.write(slot_at(slot as usize) + 64, &[7; 8]);
        }
    }
}

const fn slot_at(trial: usize) -> u64 {
    SLOTS_AT + (trial as u64 % SLOTS) * SLOT_BYTES
}

/// The board of one life of one node.
pub(crate) struct Board {
    node: usize,
    pub(crate) imported: Imported,
    pub(crate) life_us: u64,
    /// Where this trial's slot is.
    pub(crate) slot: u64,
}

impl Board {
    pub(crate) async fn import(
        origin: &Origin<'_>,
        node: usize,
        trial: usize,
        how: Lookup,
        seen: &mut Seen,
    ) -> Result<Self, Exception> {
        let imported = origin.client.import_with(&format!("n{node}/{NAME}"), how).await?;
        let life_us = word(&imported, 0).await?;
        seen.lives.push((node, life_us, now_ms()));
        Ok(Self { node, imported, life_us, slot: slot_at(trial) })
    }

    /// Whether this import still shows the life for which it was made, as it must unless it fails: a later life has another segment.
    pub(crate) async fn same_life(&self, seen: &mut Seen) -> Result<bool, Exception> {
        let life_us = self.life_now(seen).await?;
        seen.lives.push((self.node, life_us, now_ms()));
        Ok(life_us == self.life_us)
    }

    /// The life whose word is read now. Pages of a life that has ended may be read for as long as they are mapped.
    pub(crate) async fn life_now(&self, seen: &mut Seen) -> Result<u64, Exception> {
        let life_us = word(&self.imported, 0).await?;
        if life_us != self.life_us {
            seen.wrong.push(format!("an import of life {} read life {life_us}", self.life_us));
        }
        Ok(life_us)
    }

    pub(crate) const fn lock_at(lock: usize) -> u64 {
        LOCKS_AT + 8 * lock as u64
    }
}

/// A word in the owner's byte order, which is that of every process on this machine.
pub(crate) async fn word(imported: &Imported, offset: u64) -> Result<u64, Exception> {
    let bytes = imported.read(offset, 8).await?;
    Ok(bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)))
}
