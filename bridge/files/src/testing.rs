//! The conformance suite: what every implementation of [`FileService`] must do, asserted once and run on each.
//!
//! Needs the feature `testing`; it panics at the first deviation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use serde_bytes::ByteBuf;

use crate::limits::{NAME_BYTES_MAX, READ_BYTES_MAX, WRITE_BYTES_MAX};
use crate::*;

/// Runs the whole suite on a service whose root is writable and empty.
///
/// # Panics
/// At the first difference, with the function and what was expected.
pub async fn conformance(service: &dyn FileService) {
    conformance_but(service, Gaps::default()).await;
}

/// Deviations that a service is known to have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    /// New directories have the server's mode, whatever was asked for.
    pub mkdir_ignores_mode: bool,
    /// `remove` takes empty directories, too.
    pub remove_takes_directories: bool,
}

/// The suite without the checks that the service is known to fail.
///
/// # Panics
/// As [`conformance`].
pub async fn conformance_but(service: &dyn FileService, gaps: Gaps) {
    names(service).await;
    bytes(service).await;
    creating(service, gaps).await;
    renaming(service).await;
    listing(service).await;
    refusals(service).await;
    handles(service).await;
}

/// Makes an empty file at `path`.
///
/// # Panics
/// If it cannot be made.
pub async fn create(service: &dyn FileService, path: &str) -> Entry {
    let params = CreateParams { path: Some(path.to_owned()), size: Some(0), ..CreateParams::default() };
    service.create(params).await.unwrap_or_else(|error| panic!("create {path}: {error}"))
}

/// Makes a directory at `path`.
///
/// # Panics
/// If it cannot be made.
pub async fn mkdir(service: &dyn FileService, path: &str) -> Entry {
    let params = MkdirParams { path: Some(path.to_owned()), ..MkdirParams::default() };
    service.mkdir(params).await.unwrap_or_else(|error| panic!("mkdir {path}: {error}"))
}

/// Looks `path` up from the root.
///
/// # Errors
/// What the service answers.
pub async fn lookup(service: &dyn FileService, path: &str) -> Result<Entry, FileError> {
    service.lookup(LookupParams { path: Some(path.to_owned()), ..LookupParams::default() }).await
}

/// Writes bytes at an offset.
///
/// # Errors
/// What the service answers.
pub async fn write(
    service: &dyn FileService,
    handle: &Handle,
    offset: u64,
    data: &[u8],
    stable: Stable,
) -> Result<WriteResult, FileError> {
    service.write(WriteParams { handle: handle.clone(), offset, data: ByteBuf::from(data), stable }).await
}

/// Reads bytes at an offset.
///
/// # Errors
/// What the service answers.
pub async fn read(
    service: &dyn FileService,
    handle: &Handle,
    offset: u64,
    count: u32,
) -> Result<ReadResult, FileError> {
    service.read(ReadParams { handle: handle.clone(), offset, count }).await
}

async fn remove(service: &dyn FileService, path: &str) -> Result<Done, FileError> {
    service.remove(RemoveParams { path: Some(path.to_owned()), ..RemoveParams::default() }).await
}

async fn rename(service: &dyn FileService, dir: &Handle, from: &str, to: &str) -> Result<Done, FileError> {
    let (from_dir, to_dir) = (Some(dir.clone()), Some(dir.clone()));
    service.rename(RenameParams { from_dir, from_name: from.to_owned(), to_dir, to_name: to.to_owned() }).await
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T, FileError>, name: &str, what: &str) {
    match result {
        Ok(value) => panic!("{what}: {name} was expected, but it gave {value:?}"),
        Err(error) => assert_eq!(error.name(), name, "{what}: {error}"),
    }
}

async fn names(service: &dyn FileService) {
    let root = service.root(RootParams {}).await.expect("root");
    assert_eq!(root.attributes.kind, Kind::Directory);
    let a = mkdir(service, "names").await;
    assert_eq!(a.attributes.kind, Kind::Directory);
    mkdir(service, "names/inner").await;
    let file = create(service, "names/inner/file.txt").await;
    let found = lookup(service, "names/inner/file.txt").await.expect("lookup by path");
    assert_eq!((found.attributes.kind, found.attributes.size), (Kind::File, 0));
    assert_eq!(found.handle, file.handle, "two ways to one file give one handle");

    let below = LookupParams { dir: Some(a.handle.clone()), path: Some("inner/file.txt".into()), name: None };
    assert_eq!(service.lookup(below).await.expect("lookup below a directory").handle, file.handle);
    let inner = LookupParams { dir: Some(a.handle.clone()), name: Some("inner".into()), path: None };
    let inner = service.lookup(inner).await.expect("lookup by name");
    let attributes = service.getattr(GetattrParams { handle: inner.handle }).await.expect("getattr");
    assert_eq!(attributes.kind, Kind::Directory);

    let unusual = create(service, "names/ünï 文件 '\"\\ -x").await;
    assert_eq!(lookup(service, "names/ünï 文件 '\"\\ -x").await.expect("unusual name").handle, unusual.handle);
    let longest = "n".repeat(NAME_BYTES_MAX);
    create(service, &format!("names/{longest}")).await;
    lookup(service, &format!("names/{longest}")).await.expect("the longest name");
}

async fn bytes(service: &dyn FileService) {
    let file = create(service, "bytes").await.handle;
    let nothing = read(service, &file, 0, 100).await.expect("read of an empty file");
    assert_eq!((nothing.data.len(), nothing.eof), (0, true));
    for (index, stable) in [Stable::Unstable, Stable::DataSync, Stable::FileSync].into_iter().enumerate() {
        let written = write(service, &file, index as u64 * 4, b"abcd", stable).await.expect("write");
        assert_eq!((written.count, written.verifier.0.len()), (4, 8), "{stable:?}");
        assert!(written.committed as u8 >= stable as u8, "{stable:?} was asked for, {:?} given", written.committed);
    }
    let verifier = write(service, &file, 12, b"", Stable::Unstable).await.expect("write of nothing").verifier;
    let committed = service.commit(CommitParams { handle: file.clone(), offset: 0, count: 0 }).await.expect("commit");
    assert_eq!(committed.verifier, verifier, "the server did not restart");

    let middle = read(service, &file, 2, 4).await.expect("read");
    assert_eq!((middle.data.as_slice(), middle.eof), (b"cdab".as_slice(), false));
    let end = read(service, &file, 8, 4).await.expect("read to the end exactly");
    assert_eq!((end.data.as_slice(), end.eof), (b"abcd".as_slice(), true));
    let over = read(service, &file, 10, 100).await.expect("read over the end");
    assert_eq!((over.data.as_slice(), over.eof), (b"cd".as_slice(), true));
    let beyond = read(service, &file, 1 << 40, 100).await.expect("read beyond the end");
    assert_eq!((beyond.data.len(), beyond.eof), (0, true));
    let none = read(service, &file, 3, 0).await.expect("read of nothing");
    assert_eq!((none.data.len(), none.eof), (0, false));

    write(service, &file, 20, b"z", Stable::Unstable).await.expect("write beyond the end");
    let gap = read(service, &file, 12, 100).await.expect("read of a gap");
    assert_eq!(gap.data.as_slice(), b"\0\0\0\0\0\0\0\0z");
    let size = service.getattr(GetattrParams { handle: file }).await.expect("getattr").size;
    assert_eq!(size, 21);
    largest(service).await;
}

async fn largest(service: &dyn FileService) {
    let file = create(service, "largest").await.handle;
    let data: Vec<u8> = (0..WRITE_BYTES_MAX).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let written = write(service, &file, 0, &data, Stable::Unstable).await.expect("the largest write");
    assert_eq!(written.count, WRITE_BYTES_MAX);
    let back = read(service, &file, 0, READ_BYTES_MAX).await.expect("the largest read");
    assert!(back.data.as_slice() == data.as_slice() && back.eof, "the largest read differs from the write");
    fails(read(service, &file, 0, READ_BYTES_MAX + 1).await, "FILES_LIMIT", "read over the limit");
    let over = vec![0; WRITE_BYTES_MAX as usize + 1];
    fails(write(service, &file, 0, &over, Stable::Unstable).await, "FILES_LIMIT", "write over the limit");
    fails(write(service, &file, u64::MAX, b"x", Stable::Unstable).await, "NFS3ERR_FBIG", "write past every offset");
}

async fn creating(service: &dyn FileService, gaps: Gaps) {
    let file = create(service, "made").await.handle;
    write(service, &file, 0, b"kept", Stable::Unstable).await.expect("write");
    let params = |how, size| CreateParams { name: Some("made".into()), how, size, ..CreateParams::default() };
    fails(service.create(params(CreateHow::Guarded, None)).await, "NFS3ERR_EXIST", "guarded create of what is there");
    let again = service.create(params(CreateHow::Unchecked, None)).await.expect("unchecked create of what is there");
    assert_eq!((again.handle, again.attributes.size), (file.clone(), 4));
    let cut = service.create(params(CreateHow::Unchecked, Some(0))).await.expect("create that empties");
    assert_eq!(cut.attributes.size, 0);

    let new = |name: &str, mode| CreateParams {
        name: Some(name.into()),
        mode: Some(mode),
        how: CreateHow::Guarded,
        ..CreateParams::default()
    };
    let made = service.create(new("private", 0o600)).await.expect("create with a mode");
    assert_eq!(made.attributes.mode, 0o600);
    fails(service.create(new("setuid", 0o4755)).await, "NFS3ERR_INVAL", "create with setuid");
    let dir = MkdirParams { name: Some("private.d".into()), mode: Some(0o700), ..MkdirParams::default() };
    let made = service.mkdir(dir.clone()).await.expect("mkdir with a mode").attributes.mode;
    assert!(made == 0o700 || gaps.mkdir_ignores_mode, "{made:#o}");
    fails(service.mkdir(dir).await, "NFS3ERR_EXIST", "mkdir of what is there");
    if !gaps.remove_takes_directories {
        fails(remove(service, "private.d").await, "NFS3ERR_ISDIR", "remove of a directory");
    }
    remove(service, "private").await.expect("remove");
    fails(lookup(service, "private").await, "NFS3ERR_NOENT", "lookup of what was removed");
    fails(remove(service, "private").await, "NFS3ERR_NOENT", "remove of what was removed");
}

async fn renaming(service: &dyn FileService) {
    let dir = mkdir(service, "moves").await.handle;
    let old = create(service, "moves/old").await.handle;
    write(service, &old, 0, b"old", Stable::Unstable).await.expect("write");
    let target = create(service, "moves/target").await.handle;
    rename(service, &dir, "old", "target").await.expect("rename over a file");
    fails(lookup(service, "moves/old").await, "NFS3ERR_NOENT", "lookup of the old name");
    let found = lookup(service, "moves/target").await.expect("lookup of the new name").handle;
    assert_eq!(read(service, &found, 0, 9).await.expect("read").data.as_slice(), b"old");
    let through_old = read(service, &old, 0, 9).await.expect("a handle from before the rename goes on working");
    assert_eq!(through_old.data.as_slice(), b"old");
    fails(read(service, &target, 0, 9).await, "NFS3ERR_STALE", "read of the file that was replaced");

    fails(rename(service, &dir, "absent", "x").await, "NFS3ERR_NOENT", "rename of nothing");
    mkdir(service, "moves/full").await;
    create(service, "moves/full/file").await;
    mkdir(service, "moves/empty").await;
    fails(rename(service, &dir, "empty", "full").await, "NFS3ERR_NOTEMPTY", "rename over a full directory");
    fails(rename(service, &dir, "target", "..").await, "NFS3ERR_INVAL", "rename to ..");
    let upward =
        RenameParams { from_dir: Some(dir), from_name: "target".into(), to_dir: None, to_name: "moved up".into() };
    service.rename(upward).await.expect("rename into another directory");
    lookup(service, "moved up").await.expect("lookup in the other directory");
}

async fn listing(service: &dyn FileService) {
    let dir = mkdir(service, "list").await.handle;
    let first = ReaddirParams { dir: Some(dir.clone()), cookie: None, count: None };
    let empty = service.readdir(first.clone()).await.expect("readdir of an empty directory");
    assert_eq!((empty.entries.len(), empty.eof, empty.next), (0, true, None));
    let mut expected = BTreeSet::new();
    for number in 0..60 {
        let name = format!("file-{number:03}-{}", "x".repeat(number));
        create(service, &format!("list/{name}")).await;
        expected.insert(name);
    }
    for count in [1, 7, 59, 60, 61, 1024] {
        let (mut seen, mut cookie, mut calls) = (Vec::new(), None, 0);
        loop {
            let page = ReaddirParams { dir: Some(dir.clone()), cookie, count: Some(count) };
            let page = service.readdir(page).await.expect("readdir");
            assert!(page.entries.len() <= count as usize, "more entries than were asked for");
            assert_eq!(page.eof, page.next.is_none(), "next is there exactly when there is more");
            seen.extend(page.entries.into_iter().map(|entry| entry.name));
            calls += 1;
            assert!(calls <= 62, "readdir in pages of {count} does not come to an end");
            cookie = page.next;
            if page.eof {
                break;
            }
        }
        assert_eq!(seen.len(), expected.len(), "each name once, in pages of {count}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    let zero = ReaddirParams { count: Some(0), ..first.clone() };
    fails(service.readdir(zero).await, "NFS3ERR_TOOSMALL", "readdir of no entries");
    let many = ReaddirParams { count: Some(1025), ..first.clone() };
    fails(service.readdir(many).await, "FILES_LIMIT", "readdir over the limit");
    let cookie = Some(Cookie(ByteBuf::from(b"abc")));
    fails(service.readdir(ReaddirParams { cookie, ..first }).await, "NFS3ERR_BAD_COOKIE", "readdir from a bad cookie");
    let root = service.readdir(ReaddirParams::default()).await.expect("readdir of the root");
    assert!(root.entries.iter().any(|entry| entry.name == "list"));
}

async fn refusals(service: &dyn FileService) {
    let file = create(service, "plain").await.handle;
    let dir = mkdir(service, "plain.d").await.handle;
    fails(lookup(service, "absent").await, "NFS3ERR_NOENT", "lookup of nothing");
    fails(lookup(service, "absent/x").await, "NFS3ERR_NOENT", "lookup below nothing");
    fails(lookup(service, "plain/x").await, "NFS3ERR_NOTDIR", "lookup below a file");
    for path in ["..", "../x", "plain.d/../..", "/etc/passwd", "a//b", "", "a\0b"] {
        fails(lookup(service, path).await, "NFS3ERR_INVAL", path);
        fails(remove(service, path).await, "NFS3ERR_INVAL", path);
        let params = CreateParams { path: Some(path.to_owned()), ..CreateParams::default() };
        fails(service.create(params).await, "NFS3ERR_INVAL", path);
    }
    fails(lookup(service, &"x".repeat(NAME_BYTES_MAX + 1)).await, "NFS3ERR_NAMETOOLONG", "lookup of a long name");
    fails(read(service, &dir, 0, 1).await, "NFS3ERR_ISDIR", "read of a directory");
    fails(write(service, &dir, 0, b"x", Stable::Unstable).await, "NFS3ERR_ISDIR", "write of a directory");
    let not_dir = ReaddirParams { dir: Some(file), ..ReaddirParams::default() };
    fails(service.readdir(not_dir).await, "NFS3ERR_NOTDIR", "readdir of a file");
}

async fn handles(service: &dyn FileService) {
    let gone = create(service, "gone").await.handle;
    write(service, &gone, 0, b"secret", Stable::FileSync).await.expect("write");
    remove(service, "gone").await.expect("remove");
    fails(read(service, &gone, 0, 1).await, "NFS3ERR_STALE", "read of a removed file");
    let other = create(service, "gone").await.handle;
    fails(read(service, &gone, 0, 1).await, "NFS3ERR_STALE", "read of a removed file whose name was given again");
    let mut written = write(service, &gone, 0, b"x", Stable::Unstable).await;
    // A server may drop a call without an answer. This caller knows that its write may be repeated.
    for _ in 0..2 {
        if written.as_ref().is_err_and(|error| error.name() == "FILES_OUTCOME_UNKNOWN") {
            written = write(service, &gone, 0, b"x", Stable::Unstable).await;
        }
    }
    fails(written, "NFS3ERR_STALE", "write of a removed file");
    fails(service.getattr(GetattrParams { handle: gone }).await, "NFS3ERR_STALE", "getattr of a removed file");
    assert_eq!(read(service, &other, 0, 9).await.expect("read of the new file").data.len(), 0);
    for bytes in [vec![], vec![0; 2000]] {
        let bad = Handle(ByteBuf::from(bytes));
        fails(read(service, &bad, 0, 1).await, "NFS3ERR_BADHANDLE", "read of a handle of no possible length");
    }
    let mut cut = other.0.to_vec();
    cut.truncate(5);
    fails(read(service, &Handle(ByteBuf::from(cut)), 0, 1).await, "NFS3ERR_BADHANDLE", "read of a cut handle");
}
