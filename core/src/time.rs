//! Time as an argument.

/// Microseconds on the node's own monotonic clock, from an arbitrary beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// `us` microseconds after the beginning.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us)
    }

    /// Microseconds since the beginning.
    #[must_use]
    pub const fn as_us(self) -> u64 {
        self.0
    }

    /// The time `us` microseconds later.
    #[must_use]
    pub const fn after(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// The time `us` microseconds earlier; the beginning, if that is later.
    #[must_use]
    pub const fn before(self, us: u64) -> Self {
        Self(self.0.saturating_sub(us))
    }

    /// Microseconds since `earlier`; 0 if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
