//! Optional settings of a builder.

use catena::NodeBuilder;

/// Sets optional values on a builder; those that are `None` stay at their defaults.
pub(crate) trait Given: Sized {
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl Given for NodeBuilder {}
