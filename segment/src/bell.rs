//! A descriptor that becomes readable when somebody rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
};

use crate::MemoryError;

/// An eventfd: rings add up until somebody takes them.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> Result<Self, MemoryError> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// A bell whose descriptor another process gave.
    #[must_use]
    pub const fn of(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Rings. Never waits: a bell whose count is full is readable anyway.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes the rings since the last call; `None`: there were none.
    #[must_use]
    pub fn take(&self) -> Option<u64> {
        let mut count = [0; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(8) => Some(u64::from_ne_bytes(count)),
            Err(Errno::INTR) => self.take(),
            _ => None,
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
