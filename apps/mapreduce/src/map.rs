//! The map function: the words of one block, counted, for each partition.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

/// How many of a block's most frequent words make its head, over all partitions.
const HEAD_WORDS: usize = 200;

/// What a reduce counts of a block: the words of its partition, or a piece of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The map task.
    pub map: u32,
    /// Its block.
    pub block: u32,
    /// Which words these are.
    pub piece: Piece,
    /// Each with its count in the block.
    pub words: Vec<(String, u32)>,
}

/// Which of a block's words a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// All.
    Whole,
    /// The frequent ones; any other word of the partition occurs in the block at most `others_max` times.
    Head {
        /// That bound.
        others_max: u32,
    },
    /// All that were not in the head.
    Tail,
}

/// Words with their counts.
type Words<'a> = [(&'a str, u32)];

/// The counts of one block, for each partition.
pub struct Counted<'a>(Vec<Vec<(&'a str, u32)>>);

/// Counts the words of a block.
#[must_use]
pub fn count(block: &str, partitions: u32) -> Counted<'_> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for word in block.split_ascii_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    let mut parts: Vec<Vec<_>> = (0..partitions.max(1)).map(|_| Vec::new()).collect();
    for (word, count) in counts {
        if let Some(part) = parts.get_mut(partition(word, partitions)) {
            part.push((word, count));
        }
    }
    Counted(parts)
}

impl<'a> Counted<'a> {
    /// For each partition all words.
    #[must_use]
    pub fn whole(self, map: u32, block: u32) -> Vec<Part> {
        self.0.iter().map(|words| part(map, block, Piece::Whole, words)).collect()
    }

    /// For each partition the frequent words. They do not depend on who counts the block, so that a head and a tail may come from different workers.
    #[must_use]
    pub fn heads(mut self, map: u32, block: u32) -> Vec<Part> {
        let head = |(head, tail): (&Words<'_>, &Words<'_>)| {
            let others_max = tail.iter().map(|(_, count)| *count).max().unwrap_or(0);
            part(map, block, Piece::Head { others_max }, head)
        };
        self.split().map(head).collect()
    }

    /// For each partition the others.
    #[must_use]
    pub fn tails(mut self, map: u32, block: u32) -> Vec<Part> {
        self.split().map(|(_, tail)| part(map, block, Piece::Tail, tail)).collect()
    }

    fn split(&mut self) -> impl Iterator<Item = (&Words<'a>, &Words<'a>)> {
        let of_each = HEAD_WORDS.div_ceil(self.0.len().max(1));
        self.0.iter_mut().map(move |words| {
            let at = of_each.min(words.len());
            if at < words.len() {
                words.select_nth_unstable_by(at, |a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            }
            words.split_at(at)
        })
    }
}

fn part(map: u32, block: u32, piece: Piece, words: &Words<'_>) -> Part {
    Part { map, block, piece, words: words.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect() }
}

/// The partition of a word: the same in every process.
#[must_use]
pub fn partition(word: &str, partitions: u32) -> usize {
    // Its keys are fixed, whereas those of a HashMap's hasher are random.
    #[allow(deprecated, reason = "the one hasher of the standard library that is the same in every process")]
    let mut hasher = std::hash::SipHasher::new();
    word.hash(&mut hasher);
    usize::try_from(hasher.finish() % u64::from(partitions.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TEXT: &str = "a a a b b c a d e f b g";

    #[test]
    fn each_word_is_in_one_partition_with_its_count() {
        let parts = count(TEXT, 3).whole(4, 5);
        let mut words: Vec<_> = parts.iter().flat_map(|part| part.words.clone()).collect();
        words.sort();
        let all = [("a", 4), ("b", 3), ("c", 1), ("d", 1), ("e", 1), ("f", 1), ("g", 1)];
        assert_eq!(words, all.map(|(word, count)| (word.to_owned(), count)));
        for (at, part) in parts.iter().enumerate() {
            assert!(part.words.iter().all(|(word, _)| partition(word, 3) == at));
        }
    }

    #[test]
    fn a_head_has_the_frequent_words_and_fits_a_tail_that_another_has_counted() {
        let many: String = (0..1_000).map(|rank| format!("w{rank} ").repeat(1 + 1_000 / (rank + 1))).collect();
        let (heads, tails) = (count(&many, 5).heads(0, 0), count(&many, 5).tails(0, 0));
        let words = |part: &Part| part.words.iter().map(|(word, _)| word.clone()).collect::<BTreeSet<_>>();
        for ((head, tail), whole) in heads.iter().zip(&tails).zip(count(&many, 5).whole(0, 0)) {
            let Piece::Head { others_max } = head.piece else { unreachable!() };
            assert_eq!(head.words.len(), HEAD_WORDS / 5);
            assert!(head.words.iter().all(|(_, count)| *count >= others_max));
            assert_eq!(tail.words.iter().map(|(_, count)| *count).max(), Some(others_max));
            assert!(words(head).is_disjoint(&words(tail)));
            assert_eq!(&words(head) | &words(tail), words(&whole));
        }
    }
}
