//! The text: words as frequent as in a real one (Zipf's law), from a seed.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use fastrand::Rng;

/// What text to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The same seed gives the same text.
    pub seed: u64,
    /// Files, one for each map task.
    pub files: u32,
    /// Lines of each.
    pub lines: u32,
    /// Words of each line.
    pub words: u32,
    /// How many different words there are to choose from.
    pub vocabulary: u32,
}

/// Writes the files `0`, `1`, ... into a folder.
///
/// # Errors
/// They cannot be written.
pub fn write(text: &Text, folder: &Path) -> io::Result<()> {
    let words = Zipf::new(text.vocabulary);
    for file in 0..text.files {
        let mut rng = Rng::with_seed(text.seed ^ (u64::from(file) << 32));
        let mut out = BufWriter::new(File::create(folder.join(file.to_string()))?);
        for _ in 0..text.lines {
            for at in 0..text.words {
                if at > 0 {
                    out.write_all(b" ")?;
                }
                out.write_all(words.draw(&mut rng).as_bytes())?;
            }
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    fs::File::open(folder)?.sync_all()
}

/// The word of rank r is drawn in proportion to 1/r.
struct Zipf {
    words: Vec<String>,
    /// Sum of 1/r up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    fn new(vocabulary: u32) -> Self {
        let mut sum = 0.0;
        let sums = (1..=vocabulary).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Self { sums: sums.collect(), words: (0..vocabulary).map(word).collect() }
    }

    fn draw(&self, rng: &mut Rng) -> &str {
        let at = rng.f64() * self.sums.last().copied().unwrap_or(0.0);
        let rank = self.sums.partition_point(|sum| *sum <= at);
        self.words.get(rank).map_or("", String::as_str)
    }
}

/// A word that can be pronounced, shorter for lower ranks, different for each.
fn word(rank: u32) -> String {
    const CONSONANTS: &[u8] = b"tnrslhdcmpfgwybvk";
    const VOWELS: &[u8] = b"eaoiu";
    let (mut rank, mut word) = (rank as usize, String::new());
    loop {
        word.push(char::from(CONSONANTS[rank % CONSONANTS.len()]));
        rank /= CONSONANTS.len();
        word.push(char::from(VOWELS[rank % VOWELS.len()]));
        rank /= VOWELS.len();
        if rank == 0 {
            return word;
        }
        rank -= 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn words_differ() {
        let words: HashSet<_> = (0..100_000).map(word).collect();
        assert_eq!(words.len(), 100_000);
    }

    #[test]
    fn the_text_is_the_same_for_the_same_seed_and_as_frequent_as_zipf_says() {
        let text = Text { seed: 5, files: 2, lines: 4, words: 5_000, vocabulary: 1_000 };
        let read = |seed| {
            let folder = tempfile::tempdir().unwrap();
            write(&Text { seed, ..text }, folder.path()).unwrap();
            fs::read_to_string(folder.path().join("0")).unwrap() + &fs::read_to_string(folder.path().join("1")).unwrap()
        };
        let (one, other) = (read(5), read(6));
        assert_eq!(one, read(5));
        assert_ne!(one, other);
        assert_eq!(one.lines().count(), 8);
        let count = |rank| one.split_whitespace().filter(|one| *one == word(rank)).count() as f64;
        let twice = count(0) / count(1);
        assert!((1.8..2.2).contains(&twice), "the first word is {twice} times as frequent as the second");
    }
}
