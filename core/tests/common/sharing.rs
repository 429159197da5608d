//! What the states of a walked world have in common.

use std::{
    fmt::{Debug, Formatter},
    ops::{Deref, DerefMut},
    sync::{Arc, OnceLock},
};

use crate::fingerprint::fingerprint_of;

/// A part of a world that is the same in many of its states: it is copied when it changes, and shown once, as its fingerprint.
#[derive(Clone)]
pub(crate) struct Common<T>(Arc<T>, OnceLock<u128>);

impl<T> From<T> for Common<T> {
    fn from(part: T) -> Self {
        Self(Arc::new(part), OnceLock::new())
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Common<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.1 = OnceLock::new();
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Debug> Debug for Common<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.1.get_or_init(|| fingerprint_of(&*self.0)))
    }
}
