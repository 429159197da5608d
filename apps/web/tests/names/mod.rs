//! Names of files: as long as the system takes them, of any bytes; and paths that are none.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use super::{hostile::ask, *};

const NAME_BYTES_MAX: usize = 255;

/// Every byte written by its number, so that none has a meaning of its own.
fn escaped(name: &[u8]) -> String {
    name.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// A beginning, with more until it is as long as a name can be.
fn long(begin: &[u8], more: &[u8]) -> Vec<u8> {
    let mut name = begin.to_vec();
    while name.len() + more.len() <= NAME_BYTES_MAX {
        name.extend_from_slice(more);
    }
    name.resize(NAME_BYTES_MAX, b'x');
    name
}

/// Names of 255 bytes that are text, of any kind.
fn texts() -> Vec<Vec<u8>> {
    // All that a name can have of ASCII, the controls, too.
    let ascii: Vec<u8> = (1..128).filter(|byte| *byte != b'/').collect();
    vec![
        long(b"a", b"a"),
        long(&ascii, b" "),
        long("\u{e4}".as_bytes(), "\u{1f980}".as_bytes()),
        long(b"%2f", b"%2f"),
        long(b"%", b"%00%2e."),
        long(b"x", b"\\..\\"),
        long(b"?query#part;", b"&a=b"),
        long(b" ", b" "),
        long(b"\n", b"\r\n"),
    ]
}

/// In a folder with `sub/file`: paths that lead to nothing.
fn nothing() -> Vec<String> {
    let long_name = "a".repeat(NAME_BYTES_MAX);
    let mut paths: Vec<String> = [
        "/sub%2ffile",
        "/sub%2Ffile",
        "/%2fsub/file",
        "/sub/file%2f",
        "/..%2f..%2fetc%2fpasswd",
        "/sub/..%2ffile",
        "/%2e%2e%2fetc/passwd",
        "/sub/%2e%2e/sub/file",
        "/sub/%2e/file",
        "/..",
        "/%00",
        "/sub/file%00",
        "/sub/file/",
        "/sub/file/x",
        "/%",
        "/%zz",
        "/%ff",
        "/%c3%28",
    ]
    .map(str::to_owned)
    .into();
    paths.extend([
        // One byte more than a name has; a hidden one; a file as a folder; a path longer than the system takes.
        format!("/{long_name}a"),
        format!("/.{}", &long_name[1..]),
        format!("/{long_name}/x"),
        format!("/{}x", "d/".repeat(4_000)),
        // Long ones that are no text.
        format!("/{}", escaped(&[0xff; NAME_BYTES_MAX])),
        format!("/{}", escaped(&long(b"\xc3", b"\xc3"))),
        format!("/{}", escaped(&[0; NAME_BYTES_MAX])),
        format!("/{}", escaped(&long(b"a\0", b"b"))),
        format!("/{}", escaped(&long(b"sub/file", b"/"))),
        format!("/{}", escaped(&long(b"../", b"../"))),
    ]);
    paths
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_255_bytes_of_any_kind_is_a_file_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    texts().iter().for_each(|name| std::fs::write(at(name), name).unwrap());
    // It is there, and has no path: those are text.
    std::fs::write(at(&[0xff; NAME_BYTES_MAX]), "no").unwrap();
    std::fs::create_dir(at(b"sub")).unwrap();
    std::fs::write(at(b"sub/file"), "file").unwrap();
    for cached in [true, false] {
        let server = folder_server(folder.path(), true, cached, FileLimits::default()).await;
        let fetcher = fetcher(&server.node).await;
        for path in nothing() {
            let status = fetcher.fetch("web", get(&path)).await.unwrap().status();
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}, cached {cached}");
        }
        for name in texts() {
            let response = fetcher.fetch("web", get(&format!("/{}", escaped(&name)))).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "{}, cached {cached}", name.escape_ascii());
            assert_eq!(whole(response).await, name, "{}, cached {cached}", name.escape_ascii());
        }
        assert_eq!(whole(fetcher.fetch("web", get("/sub/file")).await.unwrap()).await, "file");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_with_long_names_have_their_pages() {
    let folder = tempfile::tempdir().unwrap();
    let names = texts();
    for name in &names {
        let path = folder.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("index.html"), name).unwrap();
    }
    let server = folder_server(folder.path(), true, true, FileLimits::default()).await;
    let fetcher = fetcher(&server.node).await;
    for name in names {
        let path = escaped(&name);
        let moved = fetcher.fetch("web", get(&format!("/{path}"))).await.unwrap();
        assert_eq!(moved.status(), StatusCode::PERMANENT_REDIRECT, "{}", name.escape_ascii());
        assert_eq!(moved.headers()["location"], format!("./{path}/"));
        assert_eq!(whole(fetcher.fetch("web", get(&format!("/{path}/"))).await.unwrap()).await, name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_of_raw_bytes_is_no_head() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "hello").unwrap();
    let server = folder_server(folder.path(), true, true, FileLimits::default()).await;
    let client = Client::builder("c").join(Place::new(server.node.address().unwrap())).connect().await.unwrap();
    let status = async |name: &[u8]| {
        let head = [&b"GET /"[..], name, b" HTTP/1.1\r\n\r\n"].concat();
        let answer = ask(&client, &[b"F", &head]).await;
        // Behind its place and its head's length.
        String::from_utf8_lossy(&answer[5 + "HTTP/1.1 ".len()..][..3]).into_owned()
    };
    for bad in [&[0xff; NAME_BYTES_MAX][..], &[0; NAME_BYTES_MAX], b"a\0", b"a\x01", b"a b", b"a\x7f"] {
        assert_eq!(status(bad).await, "400", "{}", bad.escape_ascii());
    }
    assert_eq!(status(b"a").await, "200");
}
