//! The reduce function: adds up the parts that come, each block once, and gives lower and upper bounds of a word's count at any time.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    job::Job,
    map::{Part, Piece},
};

/// The counts of one partition, as far as they have come.
#[derive(Debug)]
pub struct Reducer {
    words: HashMap<String, Count>,
    /// What has come of each block, by [`Reducer::at`].
    blocks: Vec<Block>,
    blocks_of_map: u32,
    words_of_block: u64,
    /// Number of words in blocks whose head has not come: they could all be the same word.
    unheard: u64,
    /// The sum, over the blocks whose tail has not come, of how often a word may be in that tail.
    tails: u64,
    taken: u64,
    repeats: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    least: u64,
    /// The part of [`Reducer::tails`] that cannot be this word, because the word was in those blocks' heads.
    not_in_tails: u64,
}

#[derive(Clone, Debug, Default)]
enum Block {
    #[default]
    Unheard,
    /// The tail came first: head and tail were asked of two workers.
    TailOnly,
    Head {
        others_max: u32,
        words: Vec<String>,
    },
    Done,
}

/// A word and the bounds of its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    /// The word.
    pub word: String,
    /// How often it has been counted.
    pub least: u64,
    /// The most that its count can be.
    pub most: u64,
}

/// How far a reduce is, and its most frequent words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The partition.
    pub partition: u32,
    /// Blocks that have come whole, of those of the job.
    pub blocks_done: u32,
    /// The most frequent words by what was counted, the most frequent first.
    pub top: Vec<Ranked>,
    /// The most that any other word of the partition can occur.
    pub others_most: u64,
    /// Different words so far.
    pub words: u64,
    /// Parts that came again, from a map that was run twice, and were not counted.
    pub repeats: u64,
    /// Whether everything has been counted.
    pub complete: bool,
}

impl Reducer {
    /// Nothing has come yet.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        let (blocks, words_of_block) = (job.blocks_in_all(), u64::from(job.words));
        Self {
            words: HashMap::new(),
            blocks: vec![Block::Unheard; usize::try_from(blocks).unwrap_or(0)],
            blocks_of_map: job.blocks,
            words_of_block,
            unheard: u64::from(blocks) * words_of_block,
            tails: 0,
            taken: 0,
            repeats: 0,
        }
    }

    /// Counts a part, unless it has come before: a map that was run twice sends the same parts again. Returns whether it was new.
    pub fn take(&mut self, part: Part) -> bool {
        let Some(state) = self.at(part.map, part.block).and_then(|at| self.blocks.get_mut(at)) else { return false };
        let before = std::mem::take(state);
        let bounded = matches!(before, Block::Head { .. } | Block::Done);
        let (after, new) = match (before, part.piece) {
            (Block::Unheard, Piece::Head { others_max }) => {
                let words = part.words.iter().map(|(word, _)| word.clone()).collect();
                (Block::Head { others_max, words }, true)
            }
            (Block::Unheard, Piece::Tail) => (Block::TailOnly, true),
            (Block::Unheard, Piece::Whole) | (Block::TailOnly, Piece::Head { .. }) => (Block::Done, true),
            (Block::Head { others_max, words }, Piece::Tail) => {
                self.settle(others_max, &words);
                (Block::Done, true)
            }
            (before, _) => (before, false),
        };
        if new {
            self.add(&part, matches!(after, Block::Done));
            // A tail alone gives no bound on how often a word is in the head.
            if !bounded && !matches!(after, Block::TailOnly) {
                self.unheard -= self.words_of_block;
            }
        }
        self.repeats += u64::from(!new);
        // Looked up again: the code in between needed all of `self`.
        if let Some(state) = self.at(part.map, part.block).and_then(|at| self.blocks.get_mut(at)) {
            *state = after;
        }
        new
    }

    fn at(&self, map: u32, block: u32) -> Option<usize> {
        (block < self.blocks_of_map).then(|| usize::try_from(map * self.blocks_of_map + block).ok()).flatten()
    }

    fn add(&mut self, part: &Part, done: bool) {
        let others_max = match part.piece {
            Piece::Head { others_max } if !done => u64::from(others_max),
            _ => 0,
        };
        self.tails += others_max;
        self.taken += u64::from(done);
        for (word, count) in &part.words {
            let entry = match self.words.get_mut(word.as_str()) {
                Some(entry) => entry,
                None => self.words.entry(word.clone()).or_default(),
            };
            entry.least += u64::from(*count);
            entry.not_in_tails += others_max;
        }
    }

    /// A tail has come: no word has to be assumed in it any more.
    fn settle(&mut self, others_max: u32, head: &[String]) {
        let others_max = u64::from(others_max);
        self.tails -= others_max;
        for word in head {
            if let Some(entry) = self.words.get_mut(word.as_str()) {
                entry.not_in_tails -= others_max;
            }
        }
    }

    /// The blocks that have come whole.
    #[must_use]
    pub fn blocks_done(&self) -> u32 {
        u32::try_from(self.taken).unwrap_or(u32::MAX)
    }

    /// Whether all have.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        usize::try_from(self.taken) == Ok(self.blocks.len())
    }

    /// Whether all blocks of a map have come whole.
    #[must_use]
    pub fn has_map(&self, map: u32) -> bool {
        let done = |block| {
            self.at(map, block).and_then(|at| self.blocks.get(at)).is_some_and(|block| matches!(block, Block::Done))
        };
        (0..self.blocks_of_map).all(done)
    }

    /// The bounds of each word's count, with the `top` most frequent words by name.
    #[must_use]
    pub fn snapshot(&self, partition: u32, top: usize) -> Snapshot {
        let mut ranked: Vec<_> =
            self.words.iter().map(|(word, count)| (count.least, word.as_str(), self.most(count))).collect();
        let by_rank = |a: &(u64, &str, u64), b: &(u64, &str, u64)| b.0.cmp(&a.0).then(a.1.cmp(b.1));
        if top < ranked.len() {
            ranked.select_nth_unstable_by(top, by_rank);
        }
        let others = ranked.split_off(top.min(ranked.len()));
        let others_most = others.iter().map(|(.., most)| *most).max().unwrap_or(0).max(self.unheard + self.tails);
        ranked.sort_unstable_by(by_rank);
        let top = ranked.into_iter().map(|(least, word, most)| Ranked { word: word.to_owned(), least, most });
        Snapshot {
            partition,
            blocks_done: self.blocks_done(),
            top: top.collect(),
            others_most,
            words: u64::try_from(self.words.len()).unwrap_or(u64::MAX),
            repeats: self.repeats,
            complete: self.is_complete(),
        }
    }

    fn most(&self, count: &Count) -> u64 {
        count.least + self.unheard + self.tails - count.not_in_tails
    }

    /// Every word with its count, in the order of the words.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut sorted: Vec<_> = self.words.iter().map(|(word, count)| (word.as_str(), count.least)).collect();
        sorted.sort_unstable();
        sorted
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::HashSet, path::PathBuf};

    use super::*;
    use crate::{
        job::{Mode, Want},
        map,
        top::top,
    };

    const PARTITIONS: u32 = 3;
    const TOP: usize = 5;

    fn job(maps: u32, blocks: u32, words: u32) -> Job {
        Job {
            id: 1,
            text: PathBuf::new(),
            maps,
            blocks,
            words,
            reduces: PARTITIONS,
            mode: Mode::Replies,
            want: Want::Counts,
        }
    }

    /// A text of skewed words, and its parts in pieces.
    fn text(rng: &mut fastrand::Rng, job: &Job) -> (String, Vec<(usize, Part)>) {
        let (mut all, mut parts) = (String::new(), Vec::new());
        for map in 0..job.maps {
            for block in 0..job.blocks {
                let word = |_| format!("w{}", (f64::from(rng.u32(1..400)).powf(rng.f64()) as u32));
                let words = (0..job.words).map(word).collect::<Vec<_>>().join(" ");
                let counted = || map::count(&words, PARTITIONS);
                if rng.bool() {
                    parts.extend(counted().whole(map, block).into_iter().enumerate());
                } else {
                    parts.extend(counted().heads(map, block).into_iter().enumerate());
                    parts.extend(counted().tails(map, block).into_iter().enumerate());
                }
                all = all + &words + " ";
            }
        }
        (all, parts)
    }

    #[test]
    fn whatever_comes_in_whatever_order_the_bounds_hold_and_what_is_proved_is_final() {
        let mut proved_early = 0;
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let job = job(4, 5, 800);
            let (all, mut parts) = text(&mut rng, &job);
            // Some come twice.
            parts.extend((0..10).map(|_| parts[rng.usize(..parts.len())].clone()).collect::<Vec<_>>());
            rng.shuffle(&mut parts);
            let mut truth: HashMap<&str, u64> = HashMap::new();
            all.split_ascii_whitespace().for_each(|word| *truth.entry(word).or_default() += 1);
            let mut ranks: Vec<_> = truth.values().copied().collect();
            ranks.sort_unstable_by_key(|count| std::cmp::Reverse(*count));

            let mut reducers: Vec<_> = (0..PARTITIONS).map(|_| Reducer::new(&job)).collect();
            for (at, (partition, part)) in parts.iter().enumerate() {
                reducers[*partition].take(part.clone());
                let snapshots: Vec<_> = reducers
                    .iter()
                    .zip(0..)
                    .map(|(reducer, partition)| Some(reducer.snapshot(partition, TOP)))
                    .collect();
                for snapshot in snapshots.iter().flatten() {
                    let named: HashSet<_> = snapshot.top.iter().map(|ranked| ranked.word.as_str()).collect();
                    for ranked in &snapshot.top {
                        let count = truth[ranked.word.as_str()];
                        assert!(
                            (ranked.least..=ranked.most).contains(&count),
                            "seed {seed}: {ranked:?}, and it is {count}"
                        );
                    }
                    let others = truth
                        .iter()
                        .filter(|(word, _)| map::partition(word, PARTITIONS) == snapshot.partition as usize);
                    let others = others.filter(|(word, _)| !named.contains(**word)).map(|(_, count)| *count).max();
                    assert!(others.unwrap_or(0) <= snapshot.others_most, "seed {seed}");
                }
                let top = top(&snapshots, TOP);
                if top.proved {
                    assert!(
                        top.words.iter().all(|ranked| truth[ranked.word.as_str()] >= ranks[TOP - 1]),
                        "seed {seed}: {top:?}"
                    );
                    proved_early += usize::from(at + 1 < parts.len());
                }
            }
        }
        assert!(proved_early > 0, "nothing was ever proved before the end: the test proves nothing");
    }

    #[test]
    fn what_comes_twice_is_counted_once() {
        let job = job(1, 1, 6);
        let part = |piece| Part { map: 0, block: 0, piece, words: vec![("a".into(), 2)] };
        let mut reducer = Reducer::new(&job);
        assert!(reducer.take(part(Piece::Whole)));
        for piece in [Piece::Whole, Piece::Head { others_max: 1 }, Piece::Tail] {
            assert!(!reducer.take(part(piece)));
        }
        assert!(!reducer.take(Part { block: 7, ..part(Piece::Whole) }), "a block that is not there");
        assert_eq!((reducer.sorted(), reducer.is_complete(), reducer.has_map(0)), (vec![("a", 2)], true, true));
    }
}
