//! The guests that are at this node now.

use std::{collections::HashMap, sync::Mutex};

use catena_core::SessionId;
use catena_guest::Session;

use super::lock;

/// A guest is out while it runs: whoever runs it holds it.
enum Slot {
    Running,
    Idle(Box<Session>),
}

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionId, Slot>>);

impl Sessions {
    /// A guest is about to be made.
    pub(super) fn open(&self, id: SessionId) {
        lock(&self.0).insert(id, Slot::Running);
    }

    /// Puts a guest back, unless its session was discarded meanwhile.
    pub(super) fn put(&self, id: SessionId, session: Session) {
        if let Some(slot) = lock(&self.0).get_mut(&id) {
            *slot = Slot::Idle(Box::new(session));
        }
    }

    /// Takes a guest out, to run it.
    pub(super) fn take(&self, id: SessionId) -> Option<Session> {
        match std::mem::replace(lock(&self.0).get_mut(&id)?, Slot::Running) {
            Slot::Idle(session) => Some(*session),
            Slot::Running => None,
        }
    }

    /// Takes a guest out for good.
    pub(super) fn remove(&self, id: SessionId) -> Option<Session> {
        match lock(&self.0).remove(&id)? {
            Slot::Idle(session) => Some(*session),
            Slot::Running => None,
        }
    }
}
