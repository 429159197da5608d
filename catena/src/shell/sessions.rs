//! The guests that are at this node now.

use std::{collections::HashMap, sync::Mutex};

use catena_core::SessionId;
use catena_guest::Session;

use super::lock;

/// A guest is taken out of its slot while it runs.
enum Slot {
    Running,
    Idle(Box<Session>),
}

#[derive(Default)]
pub(super) struct Sessions {
    here: Mutex<HashMap<SessionId, Slot>>,
    /// A guest that has moved on or ended. Its messages are sent before its instance is returned to the pool.
    done: Mutex<Option<Session>>,
}

impl Sessions {
    /// Makes a slot for a guest that is about to be created.
    pub(super) fn open(&self, id: SessionId) {
        lock(&self.here).insert(id, Slot::Running);
    }

    /// Puts a guest back, unless its session was discarded meanwhile.
    pub(super) fn put(&self, id: SessionId, session: Session) {
        if let Some(slot) = lock(&self.here).get_mut(&id) {
            *slot = Slot::Idle(Box::new(session));
        }
    }

    /// Takes a guest out, to run it.
    pub(super) fn take(&self, id: SessionId) -> Option<Session> {
        match std::mem::replace(lock(&self.here).get_mut(&id)?, Slot::Running) {
            Slot::Idle(session) => Some(*session),
            Slot::Running => None,
        }
    }

    /// Takes a guest out for good.
    pub(super) fn remove(&self, id: SessionId) -> Option<Session> {
        match lock(&self.here).remove(&id)? {
            Slot::Idle(session) => Some(*session),
            Slot::Running => None,
        }
    }

    /// Leaves a finished guest to [`Sessions::tidy`].
    pub(super) fn leave(&self, session: Session) {
        let before = lock(&self.done).replace(session);
        drop(before);
    }

    /// Returns the instance of the finished guest to the pool.
    pub(super) fn tidy(&self) {
        let done = lock(&self.done).take();
        drop(done);
    }
}
