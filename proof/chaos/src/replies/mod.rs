//! Calls that are answered many times, by trees of servers: some delegate their right to reply, some ask others and pass their replies on.

mod asking;
mod audit;
mod serving;

use serde::{Deserialize, Serialize};

pub(crate) use asking::one;
pub(crate) use serving::functions;

use crate::{kinds::Kind, node::service_name, rng::Rng};

/// What one server of a tree does.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Branch {
    trial: usize,
    service: String,
    /// Replies in a row, by the function itself and by tasks that it starts: the first number of each row, and how many.
    rows: Vec<(usize, usize)>,
    /// Before each reply.
    pause_ms: u64,
    /// Those reply to the caller themselves.
    delegated: Vec<Branch>,
    /// Those reply to this server, which passes each reply on.
    passed: Vec<Branch>,
}

/// How deep a tree is, and how wide: beneath each server.
const DEPTH_MAX: usize = 2;
const WIDTH_MAX: usize = 4;
const ROWS_MAX: usize = 4;
const REPLIES_MAX: u64 = 5;
const PAUSE_MS_MAX: u64 = 40;
/// A tree whose reader leaves has more to say than it has time for, so that a word that does not reach it shows.
const DROPPED_REPLIES: (u64, u64) = (40, 80);
const DROPPED_PAUSE_MS_MAX: u64 = 120;
const DROPPED_AFTER_MS_MAX: u64 = 800;

struct Draw {
    rng: Rng,
    kind: Kind,
    trial: usize,
    nodes: usize,
    /// Numbered so far.
    replies: usize,
}

impl Draw {
    fn branch(&mut self, depth: usize) -> Branch {
        let (low, high) = if self.kind == Kind::Dropped { DROPPED_REPLIES } else { (0, REPLIES_MAX) };
        let pause_ms_max = if self.kind == Kind::Dropped { DROPPED_PAUSE_MS_MAX } else { PAUSE_MS_MAX };
        let rows = (0..=self.rng.below(ROWS_MAX)).map(|_| self.row(low, high)).collect();
        let (mut delegated, mut passed) = (Vec::new(), Vec::new());
        let width = if depth == DEPTH_MAX { 0 } else { self.rng.below(WIDTH_MAX) };
        for _ in 0..width {
            let passes = self.kind != Kind::Delegated && self.rng.below(2) == 0;
            let branch = self.branch(depth + 1);
            if passes { passed.push(branch) } else { delegated.push(branch) }
        }
        let service = service_name(self.rng.below(self.nodes));
        Branch { trial: self.trial, service, rows, pause_ms: self.rng.range(0, pause_ms_max), delegated, passed }
    }

    fn row(&mut self, low: u64, high: u64) -> (usize, usize) {
        let count = self.rng.range(low, high) as usize;
        self.replies += count;
        (self.replies - count, count)
    }
}
