//! The most frequent words of all partitions, and whether what is still to come can change them.

use crate::reduce::{Ranked, Snapshot};

/// The most frequent words as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    /// The most frequent first.
    pub words: Vec<Ranked>,
    /// Whether no other word can take the place of one of them, whatever is still to come. Their order, and their counts, may still change
    /// unless `least` and `most` of each are the same.
    pub proved: bool,
}

/// Puts the snapshots of all partitions together; `None` for one of which nothing is known yet.
#[must_use]
pub fn top(snapshots: &[Option<Snapshot>], count: usize) -> Top {
    let known = || snapshots.iter().flatten();
    let mut words: Vec<_> = known().flat_map(|snapshot| &snapshot.top).cloned().collect();
    words.sort_by(|a, b| b.least.cmp(&a.least).then(a.word.cmp(&b.word)));
    let rest = words.split_off(count.min(words.len()));
    let least = words.last().map_or(0, |word| word.least);
    let most = rest.iter().map(|word| word.most).chain(known().map(|snapshot| snapshot.others_most)).max().unwrap_or(0);
    let complete = known().count() == snapshots.len() && known().all(|snapshot| snapshot.complete);
    // A word that may yet be as frequent as the last of them could stand in its place.
    let proved = complete || (known().count() == snapshots.len() && words.len() == count && most < least);
    Top { words, proved }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(partition: u32, words: &[(&str, u64, u64)], others_most: u64) -> Option<Snapshot> {
        let ranked =
            |(word, least, most): &(&str, u64, u64)| Ranked { word: (*word).into(), least: *least, most: *most };
        let top = words.iter().map(ranked).collect();
        Some(Snapshot { partition, blocks_done: 0, top, others_most, words: 0, repeats: 0, complete: false })
    }

    #[test]
    fn it_is_proved_when_no_other_word_can_be_as_frequent_as_the_last_one() {
        let first = |others_most| snapshot(0, &[("a", 9, 30), ("b", 7, 8)], others_most);
        let second = |most| snapshot(1, &[("c", 6, most), ("d", 1, 2)], 2);
        // Of the two most frequent words, the second has been counted seven times.
        for (snapshots, proved) in [
            ([first(6), second(6)], true),
            ([first(7), second(6)], false),
            ([first(6), second(7)], false),
            ([first(6), None], false),
        ] {
            let top = top(&snapshots, 2);
            assert_eq!(top.words.iter().map(|ranked| ranked.word.as_str()).collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!(top.proved, proved, "{snapshots:?}");
        }
        let complete = |snapshot: Option<Snapshot>| snapshot.map(|snapshot| Snapshot { complete: true, ..snapshot });
        assert!(top(&[first(7), second(7)].map(complete), 2).proved, "nothing more comes");
    }
}
