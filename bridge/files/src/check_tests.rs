#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use proptest::prelude::*;

fn refused(name: Option<&str>, path: Option<&str>) -> &'static str {
    Target::of("lookup", None, name, path).unwrap_err().name()
}

#[test]
fn what_could_lead_out_is_refused() {
    for path in ["..", "../x", "a/../b", "a/..", "/etc/passwd", "/", "", ".", "a//b", "a/", "a/./b", "a\0b", "\0"] {
        assert_eq!(refused(None, Some(path)), "NFS3ERR_INVAL", "{path:?}");
    }
    for name in ["..", ".", "", "a/b", "/", "a\0"] {
        assert_eq!(refused(Some(name), None), "NFS3ERR_INVAL", "{name:?}");
    }
    assert_eq!(refused(None, None), "NFS3ERR_INVAL");
    assert_eq!(refused(Some("a"), Some("a")), "NFS3ERR_INVAL");
}

#[test]
fn what_is_too_long_is_refused() {
    assert_eq!(refused(Some(&"n".repeat(NAME_BYTES_MAX + 1)), None), "NFS3ERR_NAMETOOLONG");
    assert_eq!(refused(None, Some(&"a/".repeat(PATH_BYTES_MAX))), "NFS3ERR_NAMETOOLONG");
    assert_eq!(refused(None, Some(&vec!["a"; PATH_DEPTH_MAX + 1].join("/"))), "NFS3ERR_NAMETOOLONG");
    let long = Handle(serde_bytes::ByteBuf::from(vec![0; HANDLE_BYTES_MAX + 1]));
    assert_eq!(Target::of("lookup", Some(&long), Some("a"), None).unwrap_err().name(), "NFS3ERR_BADHANDLE");
}

#[test]
fn sizes_are_bounded() {
    assert!(read_count(READ_BYTES_MAX).is_ok());
    assert_eq!(read_count(READ_BYTES_MAX + 1).unwrap_err().name(), "FILES_LIMIT");
    assert_eq!(write_range(0, WRITE_BYTES_MAX as usize + 1).unwrap_err().name(), "FILES_LIMIT");
    assert_eq!(write_range(u64::MAX, 1).unwrap_err().name(), "NFS3ERR_FBIG");
    assert_eq!(write_range(i64::MAX as u64, 1).unwrap_err().name(), "NFS3ERR_FBIG");
    assert_eq!(readdir_count(Some(0)).unwrap_err().name(), "NFS3ERR_TOOSMALL");
    assert_eq!(readdir_count(Some(READDIR_ENTRIES_MAX + 1)).unwrap_err().name(), "FILES_LIMIT");
    assert_eq!(mode("create", Some(0o4755)).unwrap_err().name(), "NFS3ERR_INVAL");
}

proptest! {
    #[test]
    fn every_accepted_path_is_plain_names_that_join_to_it(path in "[a-z./\\x00\u{e9} ]{0,40}") {
        if let Ok(target) = Target::of("lookup", None, None, Some(&path)) {
            prop_assert_eq!(target.path(), path.clone());
            for component in target.parents.iter().chain([&target.name]) {
                prop_assert!(!component.is_empty() && *component != "." && *component != "..");
                prop_assert!(!component.contains(['/', '\0']));
            }
        }
    }
}
