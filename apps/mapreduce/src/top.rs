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
