//! What a builder is told only if it is given.

use catena::NodeBuilder;

/// A builder that is told what is given, and for the rest stays as by default.
pub(crate) trait Given: Sized {
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl Given for NodeBuilder {}
