//! For whom a sandbox does something, and how it shares out what all need.

/// Whom a load or a session counts for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// Whoever made the sandbox.
    Own,
    /// Anybody else, by a number that the sandbox's user gives out.
    Other(u128),
}

impl Owner {
    /// Whether an owner that has `own` of something may have `more`, where all together have `all` and there is room for `max`. Others may each have no more
    /// than they leave free, so that the next one finds room; an eighth of `max` is kept for [`Owner::Own`].
    pub(crate) const fn may_have(self, more: u64, own: u64, all: u64, max: u64) -> bool {
        // All of `more` but the last unit, which has to find room too.
        let before = more.saturating_sub(1);
        let all = all.saturating_add(before);
        match self {
            Self::Own => all < max,
            Self::Other(_) => {
                let left = (max - max / 8).saturating_sub(all);
                left > 0 && own.saturating_add(before) <= left
            }
        }
    }
}
