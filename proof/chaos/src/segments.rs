//! Segments: a slot is written and read, by memory or by the link, while its owner may be killed and started again.

use std::time::Duration;

use catena::{Exception, Lookup};

use crate::{
    board::{Board, SLOT_BYTES},
    bytes::pattern,
    data::{Seen, Went, watch},
    kinds::Kind,
    rng::Rng,
    trials::Origin,
};

const ROUNDS: (u64, u64) = (3, 9);
const PAUSE_MS_MAX: u64 = 150;
/// How often, and how long after one another, an owner that is gone is looked for.
const LOOKS_MAX: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(150);

pub(crate) async fn one(origin: &Origin<'_>, mut rng: Rng, trial: usize) -> Went {
    let owner = rng.below(origin.nodes);
    watch(Kind::Segment, trial, vec![owner], async |seen| {
        let how = if rng.below(2) == 0 { Lookup::Forced } else { Lookup::default() };
        let mut board = Board::import(origin, owner, trial, how, seen).await?;
        let mut before = vec![0; SLOT_BYTES as usize];
        for round in 0..rng.range(ROUNDS.0, ROUNDS.1) {
            tokio::time::sleep(Duration::from_millis(rng.range(0, PAUSE_MS_MAX))).await;
            let mine = pattern(trial as u64 * 16 + round, SLOT_BYTES as usize);
            match write_and_read(&board, &before, &mine, seen).await {
                Ok(()) => before = mine,
                Err(why) if round == 0 => return Err(why),
                Err(_) => {
                    board = other_life(origin, owner, trial, &board, seen).await?;
                    before = board.imported.read(board.slot, SLOT_BYTES).await?.to_vec();
                }
            }
        }
        Ok(())
    })
    .await
}

/// Writes, and checks what is read back: after a successful flush the new bytes, after a failed one old or new, word by word.
async fn write_and_read(board: &Board, before: &[u8], mine: &[u8], seen: &mut Seen) -> Result<(), Exception> {
    board.imported.write(board.slot, mine.to_vec()).await?;
    let flushed = board.imported.flush().await;
    let got = board.imported.read(board.slot, SLOT_BYTES).await?;
    if !board.same_life(seen).await? {
        return Ok(());
    }
    if flushed.is_ok() {
        seen.compare("the slot, flushed", mine, &got);
    } else {
        let words = before.chunks(8).zip(mine.chunks(8)).zip(got.chunks(8));
        let torn = words.filter(|((before, mine), got)| before != got && mine != got).count();
        if torn > 0 {
            seen.wrong.push(format!("{torn} words are neither old nor new"));
        }
    }
    flushed
}

/// Imports the owner's next life, or the same life by another link. The former import still refers to the former life.
async fn other_life(
    origin: &Origin<'_>,
    owner: usize,
    trial: usize,
    former: &Board,
    seen: &mut Seen,
) -> Result<Board, Exception> {
    let mut looks = 0;
    let next = loop {
        looks += 1;
        match Board::import(origin, owner, trial, Lookup::Forced, seen).await {
            Ok(board) => break board,
            Err(why) if looks == LOOKS_MAX => return Err(why),
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    if next.life_us != former.life_us {
        // The old import must fail, or still read the old life, however long ago that ended.
        let _ = former.life_now(seen).await;
    }
    Ok(next)
}
