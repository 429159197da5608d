//! What a call leads to.

use catena_wire::Branch;
use minicbor::{Decode, Encode};

/// What the function does that has one right to reply, and what those do to which it delegates.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub(crate) struct Tree {
    /// The host whose service it calls.
    #[n(0)]
    pub(crate) host: u8,
    /// Replies before the function ends.
    #[n(1)]
    pub(crate) replies: u8,
    /// Delegated after the first of them.
    #[n(2)]
    pub(crate) delegates: Vec<Tree>,
    /// What it returns is one more reply.
    #[n(3)]
    pub(crate) returns: bool,
    /// It throws.
    #[n(4)]
    pub(crate) throws: bool,
    /// A task that it started has the right for longer, and replies so often.
    #[n(5)]
    pub(crate) later: Option<u8>,
    /// That task never lets it go.
    #[n(6)]
    pub(crate) keeps: bool,
}

impl Tree {
    pub(crate) fn new(host: u8, replies: u8) -> Self {
        Self { host, replies, ..Self::default() }
    }

    pub(crate) fn delegating(mut self, to: Tree) -> Self {
        self.delegates.push(to);
        self
    }

    pub(crate) fn later(self, replies: u8) -> Self {
        Self { later: Some(replies), ..self }
    }

    pub(crate) fn kept(self) -> Self {
        Self { keeps: true, later: Some(0), ..self }
    }

    /// All rights of it, each with its place.
    pub(crate) fn rights(&self) -> Vec<(Branch, &Tree)> {
        let mut all = vec![(Branch::root(), self)];
        let mut at = 0;
        while let Some((branch, tree)) = all.get(at).cloned() {
            for (number, child) in (1..).zip(&tree.delegates) {
                all.push((branch.child(number).unwrap(), child));
            }
            at += 1;
        }
        all
    }

    /// Replies under this right alone.
    pub(crate) fn own(&self) -> usize {
        usize::from(self.replies) + usize::from(self.returns && !self.throws) + usize::from(self.later.unwrap_or(0))
    }
}
