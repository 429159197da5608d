//! How far a run has come, for whoever waits for it.

/// Lines in all.
const LINES: usize = 10;

pub(crate) struct Progress {
    chains: usize,
    ended: usize,
}

impl Progress {
    pub(crate) const fn new(chains: usize) -> Self {
        Self { chains, ended: 0 }
    }

    pub(crate) fn one_more(&mut self) {
        self.ended += 1;
        if self.ended.is_multiple_of((self.chains / LINES).max(1)) {
            println!("{:>8}  of {} chains have ended", self.ended, self.chains);
        }
    }
}
