//! What a chain moves for.

use crate::{GuestCall, GuestSplit};

/// What a chain moves for.
#[derive(Clone, Debug)]
pub(crate) enum Cargo {
    /// A call.
    Call(GuestCall),
    /// A split, to its merge host.
    Split(GuestSplit),
}

impl Cargo {
    /// The guest's number for it.
    pub(crate) const fn number(&self) -> u32 {
        match self {
            Self::Call(call) => call.call,
            Self::Split(split) => split.call,
        }
    }

    /// The service that decides where it goes.
    pub(crate) fn service(&self) -> &str {
        match self {
            Self::Call(call) => &call.service,
            Self::Split(split) => split.at.as_deref().unwrap_or(""),
        }
    }

    pub(crate) fn function(&self) -> &str {
        match self {
            Self::Call(call) => &call.function,
            Self::Split(_) => "split",
        }
    }

    pub(crate) const fn position(&self) -> (u32, u32) {
        match self {
            Self::Call(call) => (call.line, call.column),
            Self::Split(split) => (split.line, split.column),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.params.len_bytes(),
            Self::Split(_) => 0,
        }
    }
}
