//! A disk that is really full: a small tmpfs, in a mount namespace of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use catena_files::{
    CreateParams, Directory, FileError, FileService, GetattrParams, Handle, RemoveParams, Stable, WriteParams,
    WriteResult,
};

/// Names the mounted directory to the copy of this test that runs inside the namespace.
const INSIDE: &str = "CATENA_FILES_FULL_DISK";

/// Runs itself again where it may mount a 1 MiB disk, and fills that.
#[test]
fn a_full_disk_is_nospc_and_what_was_there_stays() {
    if let Some(dir) = std::env::var_os(INSIDE) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(fill(&Directory::open(dir).unwrap()));
    }
    let dir = tempfile::TempDir::new().unwrap();
    let namespace = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let script = "mount -t tmpfs -o size=1m tmpfs \"$1\" && exec \"$2\" --exact \"$3\" --nocapture";
    let output = Command::new("unshare")
        .args([namespace, "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .arg("a_full_disk_is_nospc_and_what_was_there_stays")
        .env(INSIDE, dir.path())
        .output()
        .expect("unshare (package util-linux) is needed to mount a small disk");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "inside the namespace (run as root, or allow user namespaces): {}\n{out}\n{err}",
        output.status
    );
}

async fn write(service: &Directory, handle: &Handle, offset: u64, data: &[u8]) -> Result<WriteResult, FileError> {
    let data = serde_bytes::ByteBuf::from(data);
    service.write(WriteParams { handle: handle.clone(), offset, data, stable: Stable::FileSync }).await
}

async fn fill(service: &Directory) {
    let make = |name: &str| CreateParams { name: Some(name.into()), ..CreateParams::default() };
    let kept = service.create(make("kept")).await.unwrap().handle;
    write(service, &kept, 0, b"kept").await.unwrap();
    let file = service.create(make("large")).await.unwrap().handle;
    let chunk = vec![7; 256 << 10];
    let mut offset = 0;
    let error = loop {
        match write(service, &file, offset, &chunk).await {
            Ok(written) => offset += u64::from(written.count),
            Err(error) => break error,
        }
        assert!(offset <= 1 << 20, "1 MiB holds {offset} bytes");
    };
    assert_eq!(error.name(), "NFS3ERR_NOSPC", "{error}");
    assert!(error.to_string().contains("bytes"), "{error}");
    assert_eq!(service.getattr(GetattrParams { handle: kept.clone() }).await.unwrap().size, 4);

    let remove = RemoveParams { name: Some("large".into()), ..RemoveParams::default() };
    service.remove(remove).await.unwrap();
    write(service, &kept, 4, &chunk).await.expect("space is free again as soon as the file is removed");
}
