//! The files that the server saw last: the state of each, so that changes by others than the clerks are noticed; and the path of each, so that handles from
//! before a move go on working.

use std::collections::HashMap;

use catena_files::{Attributes, Directory, Handle};

use crate::caches::Identity;

/// Size, and when data and attributes last changed, in milliseconds.
type Stamp = (u64, u64, u64);

#[derive(Debug)]
struct File {
    identity: Identity,
    handle: Handle,
    stamp: Stamp,
}

/// A bounded set of files: beyond the bound, a new file replaces a random one, so that a walk through more files than that still finds most of them.
#[derive(Debug)]
pub(crate) struct Known {
    files_max: usize,
    files: Vec<File>,
    places: HashMap<Identity, usize>,
    /// Where the next recheck begins.
    next: usize,
}

/// The result of noting a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    /// Its state differs from when it was last noted.
    pub(crate) changed: bool,
    /// The file that was dropped to make room: nobody would notice its changes any more.
    pub(crate) let_go: Option<Identity>,
}

fn stamp(of: &Attributes) -> Stamp {
    (of.size, of.modified_at_ms, of.changed_at_ms)
}

impl Known {
    /// At most this many files, and at least one.
    pub(crate) fn new(files_max: usize) -> Self {
        Self { files_max: files_max.max(1), files: Vec::new(), places: HashMap::new(), next: 0 }
    }

    /// Notes the state of a file. Its path stays as it was known: the handle may be from before a move.
    pub(crate) fn note(&mut self, identity: Identity, handle: &Handle, now: &Attributes) -> Noted {
        if let Some(file) = self.file_mut(&identity) {
            let changed = file.stamp != stamp(now);
            file.stamp = stamp(now);
            return Noted { changed, let_go: None };
        }
        let full = self.files.len() >= self.files_max;
        let let_go = full.then(|| self.files[fastrand::usize(..self.files.len())].identity);
        if let Some(other) = &let_go {
            self.forget(other);
        }
        self.places.insert(identity, self.files.len());
        self.files.push(File { identity, handle: handle.clone(), stamp: stamp(now) });
        Noted { changed: false, let_go }
    }

    /// A look-up found the file at this handle's path.
    pub(crate) fn found(&mut self, identity: &Identity, handle: &Handle) {
        if let Some(file) = self.file_mut(identity) {
            file.handle = handle.clone();
        }
    }

    /// A file or directory was moved from one path to another, together with everything below it.
    pub(crate) fn moved(&mut self, from: &str, to: &str) {
        for file in &mut self.files {
            let path = Directory::path_of(&file.handle);
            let below = path.as_deref().and_then(|path| path.strip_prefix(from));
            let moved =
                below.filter(|below| below.is_empty() || below.starts_with('/')).map(|below| format!("{to}{below}"));
            if let Some(handle) = moved.and_then(|path| Directory::handle_at(&file.handle, &path)) {
                file.handle = handle;
            }
        }
    }

    /// Its current handle, as far as it is known.
    pub(crate) fn handle_of(&self, identity: &Identity) -> Option<&Handle> {
        self.places.get(identity).map(|at| &self.files[*at].handle)
    }

    pub(crate) fn forget(&mut self, identity: &Identity) {
        let Some(at) = self.places.remove(identity) else { return };
        self.files.swap_remove(at);
        if let Some(last) = self.files.get(at) {
            self.places.insert(last.identity, at);
        }
    }

    /// The files that are next to be rechecked.
    pub(crate) fn next(&mut self, files_max: usize) -> Vec<Identity> {
        let count = files_max.min(self.files.len());
        let due = self.files.iter().cycle().skip(self.next).take(count).map(|file| file.identity).collect();
        self.next = (self.next + count) % self.files.len().max(1);
        due
    }

    fn file_mut(&mut self, identity: &Identity) -> Option<&mut File> {
        self.places.get(identity).map(|at| &mut self.files[*at])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(number: u8, path: &str) -> (Identity, Handle) {
        let handle = Handle([&[0xC1][..], &[number; 24], path.as_bytes()].concat().into());
        (Directory::identity(&handle).unwrap(), handle)
    }

    fn noted(known: &mut Known, number: u8, path: &str) -> Noted {
        let (identity, handle) = file(number, path);
        let attributes = Attributes {
            kind: catena_files::Kind::File,
            size: number.into(),
            used_bytes: 0,
            mode: 0,
            links: 1,
            uid: 0,
            gid: 0,
            accessed_at_ms: 0,
            modified_at_ms: 0,
            changed_at_ms: 0,
        };
        known.note(identity, &handle, &attributes)
    }

    #[test]
    fn whoever_is_one_too_many_takes_the_place_of_another() {
        let mut known = Known::new(3);
        let mut there = Vec::new();
        for number in 0..100 {
            let (identity, handle) = file(number, "file");
            let let_go = noted(&mut known, number, "file").let_go;
            assert_eq!(let_go.is_some(), number >= 3);
            there.retain(|other| Some(*other) != let_go);
            there.push(identity);
            assert_eq!(known.handle_of(&identity), Some(&handle));
            let mut seen = known.next(10);
            seen.sort_unstable();
            there.sort_unstable();
            assert_eq!(seen, there, "each has its turn");
        }
        assert_eq!(noted(&mut known, 99, "file"), Noted { changed: false, let_go: None });
        known.forget(&file(99, "").0);
        assert_eq!((known.next(10).len(), known.handle_of(&file(99, "").0)), (2, None));
    }

    #[test]
    fn what_is_below_a_directory_moves_with_it_and_nothing_else_does() {
        let mut known = Known::new(10);
        let paths = ["a", "a/b", "a/b/c", "ab", "b/a", "b"];
        for (number, path) in (0..).zip(paths) {
            noted(&mut known, number, path);
        }
        known.moved("a", "x/y");
        for (number, path) in (0..).zip(["x/y", "x/y/b", "x/y/b/c", "ab", "b/a", "b"]) {
            let (identity, handle) = file(number, path);
            assert_eq!(known.handle_of(&identity), Some(&handle), "{path}");
            // A handle from before the move changes nothing.
            noted(&mut known, number, paths[usize::from(number)]);
            assert_eq!(known.handle_of(&identity), Some(&handle), "{path}");
        }
    }
}
