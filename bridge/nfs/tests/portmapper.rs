//! Ports from a real portmapper. Alone in its program, because servers that start take each other's registration away.
#![allow(clippy::panic)]

use std::time::Duration;

use catena_bridge_nfs::{NfsBridge, NfsConfig};
use catena_files::testing::{conformance, create};
use catena_ganesha::GaneshaServer;
use tokio::sync::Mutex;

/// A server that starts takes the other's registration away.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn ports_come_from_the_portmapper() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let server = GaneshaServer::start();
    let config = NfsConfig { nfs_port: None, mount_port: None, ..server.config() };
    // A server answers at its ports before it has registered all of them.
    let registered = async {
        loop {
            match NfsBridge::connect(config.clone()).await {
                Ok(service) => return service,
                Err(why) if why.to_string().contains("Program unavailable") => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(why) => panic!("{why}"),
            }
        }
    };
    let service = tokio::time::timeout(Duration::from_secs(60), registered).await;
    let service = service.unwrap_or_else(|_| panic!("not registered within a minute"));
    create(&service, "found").await;
    assert!(server.dir.join("found").exists());
}

#[tokio::test]
async fn a_server_that_wants_a_privileged_port_gets_one() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let server = GaneshaServer::start();
    let config = NfsConfig { privileged_port: true, connections_max: 4, ..server.config() };
    let service = NfsBridge::connect(config).await.unwrap_or_else(|error| panic!("{error}"));
    conformance(&service).await;
}
