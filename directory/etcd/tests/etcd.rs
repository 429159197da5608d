//! Against Debian's etcd-server (`tools/bootstrap.sh tests` installs it).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../catena/tests/common/held.rs"]
mod held;
#[path = "../../core/tests/common/served.rs"]
mod served;

use std::{path::Path, process::Command, time::Duration};

use catena_directory::{Announcement, Answer, Kinds, Location, NodeId, NodeRef, Resolver, ServiceEntry};
use catena_etcd::{EtcdConfig, EtcdResolver};
use held::HeldPort;
use served::Served;

fn serve(folder: &Path, port: u16) -> Served {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), "http://127.0.0.1:0");
    let mut server = Command::new("etcd");
    server
        .args(["--data-dir".as_ref(), folder.as_os_str()])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster"])
        .arg(format!("default={peer}"))
        .args(["--unsafe-no-fsync"]);
    Served::start(&mut server)
}

fn open(port: u16, lease_s: u64) -> EtcdResolver {
    let config = EtcdConfig::new(vec![format!("http://127.0.0.1:{port}")]);
    EtcdResolver::open(EtcdConfig { lease: Duration::from_secs(lease_s), ..config }).unwrap()
}

fn own(run: u64, services: &[&str]) -> Announcement {
    let node = NodeRef { id: NodeId(run), name: format!("n{run}"), address: Some("127.0.0.1:1".into()), site: None };
    let entry = |service: &&str| ServiceEntry {
        service: (*service).into(),
        functions: vec!["f".into()],
        node: node.clone(),
        kinds: Kinds::default(),
        proxy: None,
    };
    Announcement { services: services.iter().map(entry).collect(), node: node.clone() }
}

fn runs(answer: &Answer) -> Vec<u64> {
    answer.at.iter().filter_map(Location::run).map(|run| run.0).collect()
}

/// Waits until it is so: what is told takes its way by etcd.
async fn until(resolver: &EtcdResolver, service: &str, is: impl Fn(&Answer) -> bool) -> Answer {
    let wait = async {
        loop {
            if let Ok(answer) = resolver.resolve(service, &[]).await
                && is(&answer)
            {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .unwrap_or_else(|_| panic!("{service} is not as it should be"))
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_down_at_first_then_up_then_down_and_back_with_old_data() {
    let (folder, held) = (tempfile::tempdir().unwrap(), HeldPort::new());
    let port = held.address.port();
    let (data, old) = (folder.path().join("data"), folder.path().join("old"));
    let (a, b) = (open(port, 30), open(port, 30));
    let why = a.resolve("files", &[]).await.unwrap_err();
    assert!(why.0.contains("does not answer"), "{why}");
    assert!(a.announce(&own(7, &["files", "ads"])).await.is_err(), "said, and not forgotten");

    let server = serve(&data, port);
    until(&b, "files", |answer| runs(answer) == [7]).await;
    b.announce(&own(8, &["files"])).await.unwrap();
    let answer = until(&a, "files", |answer| runs(answer).len() == 2).await;
    assert_eq!((runs(&answer), answer.note), (vec![7, 8], None), "the oldest first");
    drop(server);
    // What it said last is told, and that it is down.
    let answer = until(&a, "files", |answer| answer.note.is_some()).await;
    assert_eq!(runs(&answer), [7, 8]);

    // A copy of its data as it was before the next changes.
    assert!(Command::new("cp").arg("-r").args([&data, &old]).status().unwrap().success());
    let server = serve(&data, port);
    until(&a, "files", |answer| answer.note.is_none()).await;
    a.announce(&own(7, &["ads", "mail"])).await.unwrap();
    until(&b, "mail", |answer| runs(answer) == [7]).await;
    until(&b, "files", |answer| runs(answer) == [8]).await;
    drop(server);
    let _server = serve(&old, port);
    // It has forgotten the one and remembers the other: what nodes serve is written again.
    until(&b, "mail", |answer| runs(answer) == [7] && answer.note.is_none()).await;
    until(&b, "files", |answer| runs(answer) == [8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_node_served_is_gone_when_its_lease_ends() {
    let (folder, held) = (tempfile::tempdir().unwrap(), HeldPort::new());
    let port = held.address.port();
    let _server = serve(folder.path(), port);
    let (asker, leaves, dies) = (open(port, 30), open(port, 2), open(port, 2));
    until(&asker, "nothing", |_| true).await;
    leaves.announce(&own(7, &["leaving"])).await.unwrap();
    dies.announce(&own(8, &["dying"])).await.unwrap();
    until(&asker, "dying", |answer| runs(answer) == [8]).await;
    until(&asker, "leaving", |answer| runs(answer) == [7]).await;
    leaves.announce(&own(7, &[])).await.unwrap();
    until(&asker, "leaving", |answer| answer.at.is_empty()).await;
    drop(dies);
    until(&asker, "dying", |answer| answer.at.is_empty()).await;
}

#[test]
fn an_endpoint_that_is_none_is_said_to_be_none() {
    for wrong in [vec![], vec!["127.0.0.1:2379".into()], vec!["https://h:2379".into()], vec!["http://h".into()]] {
        assert!(EtcdResolver::open(EtcdConfig::new(wrong.clone())).is_err(), "{wrong:?}");
    }
}
