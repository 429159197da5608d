//! What a node tells others of where it is: the address it listens on, or the one that it advertises.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use catena::{Client, NetError, Node, NodeBuilder, Place, Service, StartError};

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
