//! The embedded service, over a real directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::testing::{conformance, create, lookup, mkdir, read, write};
use crate::{CreateHow, Handle, Stable};

fn served() -> (TempDir, Directory) {
    let dir = TempDir::new().unwrap();
    let service = Directory::open(dir.path()).unwrap();
    (dir, service)
}

#[tokio::test]
async fn it_conforms() {
    let (_dir, service) = served();
    conformance(&service).await;
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let error = Directory::open("/no/such/directory").unwrap_err();
    assert!(error.to_string().contains("/no/such/directory"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(Directory::open(file.path()).is_err());
}

#[tokio::test]
async fn links_are_shown_and_never_followed() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let (dir, service) = served();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), dir.path().join("secret")).unwrap();
    symlink("../../../../../../etc/passwd", dir.path().join("relative")).unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join("in/file"), "x").unwrap();
    symlink("in", dir.path().join("inside")).unwrap();
    for name in ["out", "secret", "relative", "inside"] {
        let entry = lookup(&service, name).await.unwrap();
        assert_eq!(entry.attributes.kind, crate::Kind::Symlink, "{name}");
        assert_eq!(read(&service, &entry.handle, 0, 9).await.unwrap_err().name(), "NFS3ERR_INVAL", "{name}");
        assert!(write(&service, &entry.handle, 0, b"x", Stable::Unstable).await.is_err(), "{name}");
        let params = CreateParams { name: Some(name.into()), ..CreateParams::default() };
        assert_eq!(service.create(params).await.unwrap_err().name(), "NFS3ERR_EXIST", "{name}");
    }
    for path in ["out/secret", "inside/file", "secret/x"] {
        assert_eq!(lookup(&service, path).await.unwrap_err().name(), "NFS3ERR_NOTDIR", "{path}");
    }
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
}

#[tokio::test]
async fn a_directory_that_becomes_a_link_does_not_lead_out() {
    let outside = TempDir::new().unwrap();
    std::fs::write(outside.path().join("file"), "secret").unwrap();
    let (dir, service) = served();
    let sub = mkdir(&service, "sub").await.handle;
    let file = create(&service, "sub/file").await.handle;
    std::fs::rename(dir.path().join("sub"), dir.path().join("was")).unwrap();
    symlink(outside.path(), dir.path().join("sub")).unwrap();
    // cap-std reports "permission denied" for whatever would leave the directory; both statuses are a refusal.
    let refused = |name: &str| assert!(matches!(name, "NFS3ERR_STALE" | "NFS3ERR_ACCES"), "{name}");
    let inside = LookupParams { dir: Some(sub.clone()), name: Some("file".into()), path: None };
    refused(service.lookup(inside).await.unwrap_err().name());
    let fresh = Directory::open(dir.path()).unwrap();
    refused(read(&fresh, &file, 0, 9).await.unwrap_err().name());
    let make = CreateParams { dir: Some(sub), name: Some("made".into()), ..CreateParams::default() };
    refused(service.create(make).await.unwrap_err().name());
    assert!(!outside.path().join("made").exists());
}

#[tokio::test]
async fn pipes_and_devices_are_never_opened() {
    let (dir, service) = served();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let pipe = lookup(&service, "pipe").await.unwrap();
    assert_eq!(pipe.attributes.kind, crate::Kind::Other);
    assert_eq!(read(&service, &pipe.handle, 0, 1).await.unwrap_err().name(), "NFS3ERR_INVAL");
    let params = CreateParams { name: Some("pipe".into()), ..CreateParams::default() };
    assert_eq!(service.create(params).await.unwrap_err().name(), "NFS3ERR_EXIST");
}

#[tokio::test]
async fn a_handle_outlives_the_service() {
    let (dir, service) = served();
    let file = create(&service, "file").await.handle;
    write(&service, &file, 0, b"kept", Stable::Unstable).await.unwrap();
    drop(service);
    let service = Directory::open(dir.path()).unwrap();
    assert_eq!(read(&service, &file, 0, 9).await.unwrap().data.as_slice(), b"kept");
}

#[tokio::test]
async fn open_files_are_bounded() {
    let (dir, service) = served();
    let mut handles = Vec::new();
    for number in 0..crate::limits::OPEN_FILES_MAX * 3 {
        let handle = create(&service, &format!("file-{number}")).await.handle;
        write(&service, &handle, 0, b"x", Stable::Unstable).await.unwrap();
        handles.push(handle);
    }
    for handle in &handles {
        assert_eq!(read(&service, handle, 0, 9).await.unwrap().data.as_slice(), b"x");
    }
    let root = dir.path().canonicalize().unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|path| path.starts_with(&root))).count();
    assert!(open <= crate::limits::OPEN_FILES_MAX + 1, "{open} files are open");
}

#[tokio::test]
async fn a_name_that_is_not_utf8_is_listed() {
    use std::os::unix::ffi::OsStrExt;
    let (dir, service) = served();
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
    let found = service.readdir(ReaddirParams::default()).await.unwrap().entries;
    assert_eq!(found[0].name, "bad\u{fffd}");
    assert_eq!(found[0].raw_name.as_ref().unwrap().as_slice(), b"bad\xff");
}

#[test]
fn params_say_what_is_wrong_with_them() {
    let error = serde_json::from_str::<LookupParams>(r#"{"nam": "x"}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `nam`") && error.contains("`name`"), "{error}");
    let how = serde_json::from_str::<CreateParams>(r#"{"path": "a/b", "how": "guarded"}"#).unwrap().how;
    assert_eq!(how, CreateHow::Guarded);
    for any in ["null", "{}", "[]", "1"] {
        serde_json::from_str::<RootParams>(any).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A file behaves as a vector of bytes does, whatever is written where.
    #[test]
    fn a_file_is_a_vector_of_bytes(
        steps in proptest::collection::vec((any::<bool>(), 0u64..100_000, 0usize..70_000, any::<u8>()), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (_dir, service) = served();
            let file = create(&service, "file").await.handle;
            let mut model: Vec<u8> = Vec::new();
            for (writes, offset, count, byte) in steps {
                let at = usize::try_from(offset).unwrap();
                if writes {
                    write(&service, &file, offset, &vec![byte; count], Stable::Unstable).await.unwrap();
                    if count > 0 {
                        model.resize(model.len().max(at + count), 0);
                        model[at..at + count].fill(byte);
                    }
                } else {
                    let got = read(&service, &file, offset, u32::try_from(count).unwrap()).await.unwrap();
                    let from = at.min(model.len());
                    let to = (at + count).min(model.len()).max(from);
                    assert_eq!(got.data.as_slice(), &model[from..to]);
                    assert_eq!(got.eof, at + count >= model.len(), "at {at}, {count} of {}", model.len());
                }
            }
        });
    }

    /// Whatever comes in as a path, an offset or a handle, the answer is a value or an error, and nothing is made outside.
    #[test]
    fn any_input_is_answered(path in ".{0,60}", offset: u64, count: u32, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let outer = TempDir::new().unwrap();
            std::fs::create_dir(outer.path().join("root")).unwrap();
            let service = Directory::open(outer.path().join("root")).unwrap();
            let made = service.create(CreateParams { path: Some(path.clone()), ..CreateParams::default() }).await;
            if let Ok(made) = made {
                let _ = read(&service, &made.handle, offset, count).await;
                let _ = write(&service, &made.handle, offset, &bytes, Stable::Unstable).await;
            }
            let handle = Handle(serde_bytes::ByteBuf::from(bytes));
            assert!(read(&service, &handle, offset, count).await.is_err());
            let _ = service.readdir(ReaddirParams { dir: Some(handle), ..ReaddirParams::default() }).await;
            assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 1);
        });
    }
}

#[tokio::test]
async fn links_sizes_times_and_empty_directories() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"0123456789").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
    std::fs::create_dir_all(folder.path().join("dir/below")).unwrap();
    let files = Directory::open(folder.path()).unwrap();
    let find = async |path: &str| lookup(&files, path).await.unwrap().handle;
    assert_eq!(files.readlink(find("out").await).await.unwrap(), b"/etc/passwd", "shown, not followed");
    assert_eq!(files.readlink(find("file").await).await.unwrap_err().name(), "NFS3ERR_INVAL");
    let change = Change { size: Some(4), mode: Some(0o600), modified_at_ns: Some(5_000_000_000), accessed_at_ns: None };
    let now = files.setattr(find("file").await, change).await.unwrap();
    assert_eq!((now.size, now.mode, now.modified_at_ms), (4, 0o600, 5_000));
    let refused = async |path, change| files.setattr(find(path).await, change).await.unwrap_err().name();
    assert_eq!(refused("file", Change { mode: Some(0o4755), ..Change::default() }).await, "NFS3ERR_INVAL");
    assert_eq!(refused("dir", Change { size: Some(1), ..Change::default() }).await, "NFS3ERR_ISDIR");
    let out = Change { mode: Some(0o777), ..Change::default() };
    assert_eq!(refused("out", out).await, "NFS3ERR_NOTSUPP", "what a link points at is not changed");
    assert_eq!(files.rmdir(None, "dir".to_owned()).await.unwrap_err().name(), "NFS3ERR_NOTEMPTY");
    files.rmdir(Some(find("dir").await), "below".to_owned()).await.unwrap();
    files.rmdir(None, "dir".to_owned()).await.unwrap();
    assert!(!folder.path().join("dir").exists());
    let state = files.statfs().await.unwrap();
    assert!(state.total_bytes >= state.free_bytes && state.total_bytes > 0);
    let of_file = files.list(find("file").await, 0, 9, 9).await.unwrap_err();
    assert_eq!(of_file.name(), "NFS3ERR_NOTDIR");
    assert_eq!(Directory::path_of(&find("file").await).as_deref(), Some("file"));
    assert_eq!(Directory::identity(&Handle(serde_bytes::ByteBuf::from(vec![1, 2]))), None);
}
