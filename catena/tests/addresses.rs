//! What a node tells others of where it is: the address it listens on, or the one that it advertises; and that a place is dialled for as long as it is joined.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/held.rs"]
mod held;

use std::time::Duration;

use catena::{Client, NetError, Node, NodeBuilder, Place, Service, StartError};
use held::HeldPort;
use tokio::{io::AsyncReadExt, net::TcpListener};

fn node(name: &str) -> NodeBuilder {
    Node::builder(name).service(Service::new(name).function("name", async |name: String| Ok(name)))
}

async fn refused(builder: NodeBuilder) -> StartError {
    match builder.start().await {
        Ok(node) => panic!("it started, at {:?}", node.address()),
        Err(why) => why,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_all_addresses_is_found_through_the_one_it_advertises() {
    let first = node("first").listen("127.0.0.1:0").start().await.unwrap();
    let seed = Place::new(first.address().unwrap());
    let all = node("all").listen("0.0.0.0:0").advertise("127.0.0.1:0").join(seed.clone()).start().await.unwrap();
    let address = all.address().unwrap();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");

    // The client is told of it by the first node, and dials what it was told.
    let client = Client::builder("client").join(seed).connect().await.unwrap();
    let entry = client.services().await.into_iter().find(|entry| entry.service == "all").unwrap();
    assert_eq!(entry.node.address.as_deref(), Some(address));
    assert_eq!(client.call::<_, String>("all", "name", "here").await.unwrap(), "here");
    assert_eq!(client.name(), "client");
    assert!(client.known_services().iter().any(|entry| entry.service == "all"));
}

#[tokio::test]
async fn an_address_that_nobody_can_dial_is_refused() {
    for all in ["0.0.0.0:0", "[::]:0"] {
        let why = refused(node("n").listen(all)).await;
        assert!(matches!(why, StartError::Unspecified(_)) && why.to_string().contains("advertise"), "{why}");
    }
    let cases = [
        ("nowhere", "host:port"),
        (":7400", "host:port"),
        ("host:http", "port"),
        ("0.0.0.0:7400", "every address"),
        ("[::]:7400", "every address"),
    ];
    for (address, part) in cases {
        let why = refused(node("n").listen("127.0.0.1:0").advertise(address)).await.to_string();
        assert!(why.contains(address) && why.contains(part), "{why}");
    }
    let why = refused(node("n").advertise("127.0.0.1:7400")).await;
    assert!(matches!(why, StartError::Advertise { .. }) && why.to_string().contains("listens nowhere"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_layer_s_reason_can_be_told_by_its_type() {
    let first = node("first").listen("127.0.0.1:0").start().await.unwrap();
    let why = refused(node("second").listen(first.address().unwrap())).await;
    assert!(matches!(why, StartError::Net(NetError::AddressInUse { .. })), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_modules_are_kept_in_the_folder_named() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("modules");
    let client = Client::builder("client").cache_dir(&cache).connect().await.unwrap();
    let code = client.javascript("one.js", "export default async () => 1;").await.unwrap();
    assert_eq!(client.run(&code, &()).await.unwrap().value::<u32>().await.unwrap(), 1);
    assert!(std::fs::read_dir(&cache).is_ok_and(|mut kept| kept.next().is_some()), "nothing was kept");
}

/// TCP connections that somebody on this host has to a port of it (`/proc/net/tcp`: the fourth field is 01 while it is established).
fn tcp_links(port: u16) -> usize {
    let to = format!("0100007F:{port:04X}");
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields.get(2) == Some(&&*to) && fields.get(3) == Some(&"01")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_one_host_have_no_tcp_between_them_unless_they_share_nothing() {
    let node = node("here").listen("127.0.0.1:0").start().await.unwrap();
    let address = node.address().unwrap();
    let port = address.parse::<std::net::SocketAddr>().unwrap().port();
    let client = || Client::builder("client").join(Place::new(address));
    for (client, links) in [(client(), 0), (client().without_shared_memory(), 1)] {
        let client = client.connect().await.unwrap();
        assert_eq!(client.call::<_, String>("here", "name", "hello").await.unwrap(), "hello");
        assert_eq!(tcp_links(port), links);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_lost_is_dialled_again_although_another_node_does_not_answer() {
    let port = HeldPort::new();
    let place = Place::new(port.address.to_string());
    let at_place = || node("place").listen(&place.address).start();
    let first = at_place().await.unwrap();
    let client = Client::builder("client").join(place.clone()).connect().await.unwrap();
    // The client hears of this one from the first, and whoever dials it gets no answer.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let advertised = silent.local_addr().unwrap().to_string();
    let other = node("other").listen("127.0.0.1:0").advertise(advertised).join(place.clone());
    let _other = other.start().await.unwrap();
    let (mut dialled, _) = silent.accept().await.unwrap();

    let lost = client.known_services().into_iter().find(|entry| entry.service == "place").unwrap();
    first.close(Duration::from_secs(1)).await;
    let _second = at_place().await.unwrap();
    let is_back = |client: &Client| {
        client.known_services().iter().any(|entry| entry.service == "place" && entry.node.id != lost.node.id)
    };
    let linked_again = async {
        while !is_back(&client) {
            tokio::task::yield_now().await;
        }
    };
    let given_up = async { while dialled.read(&mut [0; 1024]).await.is_ok_and(|bytes| bytes > 0) {} };
    tokio::select! {
        () = linked_again => {}
        () = given_up => panic!("it was dialled only after the other had not answered"),
    }
}
