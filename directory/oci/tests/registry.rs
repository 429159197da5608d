//! Against Debian's docker-registry (`tools/bootstrap.sh tests` installs it).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../catena/tests/common/held.rs"]
mod held;
#[path = "../../core/tests/common/served.rs"]
mod served;

use std::{path::Path, process::Command, time::Duration};

use bytes::Bytes;
use catena_directory::{Hash, Registry};
use catena_oci::OciRegistry;
use held::HeldPort;
use served::Served;

fn serve(folder: &Path, port: u16) -> Served {
    let config = format!(
        "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: 127.0.0.1:{port} }}\n",
        folder.join("data").display()
    );
    std::fs::write(folder.join("config.yml"), config).unwrap();
    Served::start(Command::new("docker-registry").arg("serve").arg(folder.join("config.yml")))
}

async fn until_up(port: u16) {
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn function(text: &str) -> (Hash, Bytes) {
    let bytes = Bytes::from(text.to_owned());
    (Hash(*blake3::hash(&bytes).as_bytes()), bytes)
}

#[tokio::test]
async fn a_function_outlives_the_registry_and_nothing_else_passes_for_it() {
    let (folder, held) = (tempfile::tempdir().unwrap(), HeldPort::new());
    let port = held.address.port();
    let registry = OciRegistry::open(&format!("http://127.0.0.1:{port}/catena/functions")).unwrap();
    let (hash, bytes) = function("export default () => 1");
    let why = registry.get(hash, 1 << 20).await.unwrap_err();
    assert!(why.0.contains("does not answer") && why.0.contains("refused"), "{why}");

    let server = serve(folder.path(), port);
    tokio::time::timeout(Duration::from_secs(60), until_up(port)).await.unwrap();
    assert_eq!(registry.get(hash, 1 << 20).await.unwrap(), None);
    registry.put(hash, bytes.clone()).await.unwrap();
    registry.put(hash, bytes.clone()).await.unwrap();
    assert_eq!(registry.get(hash, 1 << 20).await.unwrap(), Some(bytes.clone()));
    assert!(registry.get(hash, 3).await.unwrap_err().0.contains("more than 3 bytes"));

    // Whoever writes to the registry puts another function under this one's name.
    let (other, others) = function("export default () => 2");
    registry.put(other, others.clone()).await.unwrap();
    let tag = |hash: Hash| blake3::Hash::from_bytes(hash.0).to_hex().to_string();
    let tags = folder.path().join("data/docker/registry/v2/repositories/catena/functions/_manifests/tags");
    std::fs::copy(tags.join(tag(other)).join("current/link"), tags.join(tag(hash)).join("current/link")).unwrap();
    assert!(registry.get(hash, 1 << 20).await.unwrap_err().0.contains("another function"));
    assert_eq!(registry.get(other, 1 << 20).await.unwrap(), Some(others.clone()));

    drop(server);
    assert!(registry.get(other, 1 << 20).await.is_err() && registry.put(hash, bytes).await.is_err());
    let _server = serve(folder.path(), port);
    tokio::time::timeout(Duration::from_secs(60), until_up(port)).await.unwrap();
    assert_eq!(registry.get(other, 1 << 20).await.unwrap(), Some(others));
}

#[test]
fn an_address_that_is_none_is_said_to_be_none() {
    for wrong in
        ["", "http://h", "https://h/x", "http://h/Upper", "http://h//x", "http:///x", "h:5000/x", "http://h/../x"]
    {
        assert!(OciRegistry::open(wrong).is_err(), "{wrong}");
    }
    assert!(OciRegistry::open("http://h:5000/a/b-c").is_ok());
}
