//! Real sockets, a group on the loopback interface: nodes of one network find each other's services.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::{Arc, Mutex},
    time::Duration,
};

use catena_directory::{Announcement, Answer, Kinds, Location, NodeId, NodeRef, Resolver, ServiceEntry};
use catena_multicast::{MulticastConfig, MulticastResolver};

/// A port of this test alone.
fn config() -> MulticastConfig {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    MulticastConfig { interface: Ipv4Addr::LOCALHOST, port, ..MulticastConfig::default() }
}

fn own(run: u64, services: &[&str]) -> Announcement {
    let address = Some(format!("127.0.0.1:{run}"));
    let node = NodeRef { id: NodeId(run), name: format!("n{run}"), address, site: None };
    let entry = |service: &&str| ServiceEntry {
        service: (*service).into(),
        functions: Vec::new(),
        node: node.clone(),
        kinds: Kinds::default(),
        proxy: None,
    };
    Announcement { services: services.iter().map(entry).collect(), node: node.clone() }
}

fn runs(answer: &Answer) -> Vec<u64> {
    answer.at.iter().filter_map(Location::run).map(|run| run.0).collect()
}

/// Datagrams may get lost, on a busy machine even here: it is asked again.
async fn found(resolver: &MulticastResolver, service: &str, is: impl Fn(&[u64]) -> bool) -> Answer {
    let wait = async {
        loop {
            let answer = resolver.resolve(service, &[]).await.unwrap();
            if is(&runs(&answer)) {
                return answer;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("{service} is not found"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_one_network_find_each_other_without_configuration() {
    let config = config();
    let open = || MulticastResolver::open(&config).unwrap();
    let (a, b) = (open(), open());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    b.watch(Arc::new(move |service: &str| hears.lock().unwrap().push(service.to_owned())));
    a.announce(&own(7, &["files", "ads"])).await.unwrap();
    found(&b, "files", |runs| runs == [7]).await;
    // One that came later asks, and is answered.
    let late = open();
    let answer = found(&late, "ads", |runs| runs == [7]).await;
    assert!(answer.ttl.is_some_and(|ttl| ttl <= Duration::from_secs(30)));
    let again = late.resolve("ads", &[]).await.unwrap();
    assert!(again.age.is_some(), "from memory: {again:?}");
    b.announce(&own(8, &["files"])).await.unwrap();
    let answer = found(&late, "files", |runs| runs.len() == 2).await;
    assert!(answer.note.is_some_and(|note| note.contains("2 nodes say")), "two owners are told of");
    a.announce(&own(7, &[])).await.unwrap();
    found(&late, "files", |runs| runs == [8]).await;
    assert!(late.resolve("nobody", &[]).await.unwrap().at.is_empty());
    assert!(heard.lock().unwrap().contains(&"files".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_datagram_of_ours_is_not_listened_to() {
    let config = config();
    let (a, b) = (MulticastResolver::open(&config).unwrap(), MulticastResolver::open(&config).unwrap());
    let liar = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length * 40).map(|at| (at % 251) as u8).collect();
        let _ = liar.send_to(&bytes, (config.group, config.port));
    }
    a.announce(&own(7, &["files"])).await.unwrap();
    found(&b, "files", |runs| runs == [7]).await;
}
