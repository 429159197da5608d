//! The time of day of a process, which a test moves: by a library that the system's loader puts before the C library. The clock by which nodes measure time
//! never jumps while they run: where they do not run, it goes on (`unruly::sleeps`).

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/processes/clock.c");

pub(crate) struct Clock {
    folder: tempfile::TempDir,
    moved: File,
}

impl Clock {
    /// As it is.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (library, by) = paths(folder.path());
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(library).arg(LIBRARY);
        assert!(cc.status().expect("a C compiler").success());
        let moved = OpenOptions::new().create_new(true).write(true).open(by).unwrap();
        let clock = Self { folder, moved };
        clock.set(0);
        clock
    }

    /// Moved by so many seconds, for all processes under it, from now on.
    pub(crate) fn set(&self, moved_s: i64) {
        self.moved.write_all_at(&moved_s.to_ne_bytes(), 0).unwrap();
    }

    /// What a process has to find in its environment.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        let (library, by) = paths(self.folder.path());
        [("LD_PRELOAD", library), ("CATENA_TEST_CLOCK", by)]
    }
}

fn paths(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("clock.so"), folder.join("moved"))
}
