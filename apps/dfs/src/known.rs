//! How files were when the caches last saw them, so that changes by others than the clerks are noticed.

use std::collections::HashMap;

use catena_files::{Attributes, Handle};

use crate::{caches::Identity, limits::KNOWN_FILES_MAX};

/// Size, and when data and attributes last changed, in milliseconds.
type Stamp = (u64, u64, u64);

#[derive(Debug, Default)]
pub(crate) struct Known {
    files: HashMap<Identity, (Handle, Stamp)>,
    /// Identities to look at next, in turn.
    turn: Vec<Identity>,
}

fn stamp(of: &Attributes) -> Stamp {
    (of.size, of.modified_at_ms, of.changed_at_ms)
}

impl Known {
    /// Notes how a file is; says whether it was otherwise when it was last noted. `None`: there is no room for it, so nothing of it may be cached.
    pub(crate) fn note(&mut self, identity: Identity, handle: &Handle, now: &Attributes) -> Option<bool> {
        if let Some((kept, was)) = self.files.get_mut(&identity) {
            let changed = *was != stamp(now);
            (*kept, *was) = (handle.clone(), stamp(now));
            return Some(changed);
        }
        if self.files.len() >= KNOWN_FILES_MAX {
            return None;
        }
        self.files.insert(identity, (handle.clone(), stamp(now)));
        Some(false)
    }

    pub(crate) fn forget(&mut self, identity: &Identity) {
        self.files.remove(identity);
    }

    /// Files whose turn it is to be looked at.
    pub(crate) fn next(&mut self, files_max: usize) -> Vec<(Identity, Handle)> {
        if self.turn.is_empty() {
            self.turn = self.files.keys().copied().collect();
        }
        let from = self.turn.len().saturating_sub(files_max);
        let due = self.turn.split_off(from);
        due.into_iter().filter_map(|identity| Some((identity, self.files.get(&identity)?.0.clone()))).collect()
    }
}
