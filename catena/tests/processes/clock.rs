//! The clocks of a process, which a test moves: by a library that the system's loader puts before the C library.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/processes/clock.c");

pub(crate) struct Clock {
    folder: tempfile::TempDir,
    file: File,
}

impl Clock {
    /// As it is.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (library, by) = paths(folder.path());
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(library).arg(LIBRARY);
        assert!(cc.status().expect("a C compiler").success());
        let file = OpenOptions::new().create_new(true).write(true).open(by).unwrap();
        file.write_all_at(&[0; 16], 0).unwrap();
        Self { folder, file }
    }

    /// The time of day is moved by so many seconds, for all processes under it, from now on.
    pub(crate) fn set(&self, moved_s: i64) {
        self.file.write_all_at(&moved_s.to_ne_bytes(), 0).unwrap();
    }

    /// All processes under it, which have stood still for so many seconds, are told that their host slept.
    pub(crate) fn slept(&self, slept_s: i64) {
        self.file.write_all_at(&slept_s.to_ne_bytes(), 8).unwrap();
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
