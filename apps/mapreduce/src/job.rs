//! What is to be counted, and how.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A job: word count over a text in blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Unique among the jobs of its workers.
    pub id: u64,
    /// Where the text is: a file for each map task, a line for each block. All workers can read it, as they would a distributed file system.
    pub text: PathBuf,
    /// Map tasks.
    pub maps: u32,
    /// Blocks of each map task.
    pub blocks: u32,
    /// Words of each block.
    pub words: u32,
    /// Reduce tasks: each counts the words of one partition.
    pub reduces: u32,
    /// How the intermediate data goes from maps to reduces.
    pub mode: Mode,
    /// What is wanted.
    pub want: Want,
}

/// How the intermediate data goes from maps to reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// A reduce fetches what a map made when that map is done, and begins to count when all have been fetched: MapReduce.
    Blocking,
    /// Maps push each block to the reduces that run, and keep what they cannot push: that is pulled later. MapReduce Online.
    PushPull,
    /// Reduces ask maps once, and maps reply block by block (Quatrain section 4.3).
    Replies,
}

impl Mode {
    /// All of them, from the oldest on.
    pub const ALL: [Self; 3] = [Self::Blocking, Self::PushPull, Self::Replies];

    /// As people say.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::PushPull => "push and pull",
            Self::Replies => "replies",
        }
    }
}

/// What is wanted of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// The count of each word.
    Counts,
    /// The most frequent words, and no more than it takes to be sure of them: maps send each block's frequent words first, and the rest only when
    /// they have nothing else to do.
    Top(u32),
}

impl Job {
    /// All blocks of the text.
    #[must_use]
    pub const fn blocks_in_all(&self) -> u32 {
        self.maps.saturating_mul(self.blocks)
    }

    /// How many of the most frequent words are shown.
    #[must_use]
    pub fn top(&self) -> usize {
        match self.want {
            Want::Counts => 20,
            Want::Top(top) => usize::try_from(top).unwrap_or(usize::MAX),
        }
    }
}
