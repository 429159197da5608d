//! Between nodes of one host links are Unix sockets, to whoever dials with that transport.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use catena_net::near::Near;
use catena_net::transport::{Tcp, Transport};
use catena_net::{Endpoint, EndpointConfig, Incoming, Message, Place};
use support::{Events, bind, identity, loopback, place_of};

fn config(transport: impl Transport, listen: Option<SocketAddr>) -> EndpointConfig {
    EndpointConfig { listen, transport: Arc::new(transport), ..EndpointConfig::default() }
}

/// Links one node to the other, and gives what the other calls the first's address.
async fn linked(dialler: &Endpoint, place: Place, events: &mut Events) -> SocketAddr {
    dialler.link(&place).await.unwrap().introduced().await.unwrap();
    events.up().await.peer_address().parse().unwrap()
}

#[tokio::test]
async fn who_dials_a_node_of_its_own_host_comes_without_a_port_and_by_tcp_with_one() {
    let (server, mut events) = bind(config(Near::default(), loopback()), identity(1, None)).await;
    let (near, _near) = bind(config(Near::default(), None), identity(2, None)).await;
    let (far, _far) = bind(config(Tcp::default(), None), identity(3, None)).await;
    assert_eq!(linked(&near, place_of(&server), &mut events).await.port(), 0);
    assert_ne!(linked(&far, place_of(&server), &mut events).await.port(), 0);
}

#[tokio::test]
async fn a_node_that_listens_at_every_address_is_near_by_each_of_them_and_by_name() {
    let all = Some(([0, 0, 0, 0], 0).into());
    let (server, mut events) = bind(config(Near::default(), all), identity(1, None)).await;
    let port = server.local_address().unwrap().port();
    // Links end with their endpoints.
    let mut held = Vec::new();
    for (node, host) in [(2, "127.0.0.1"), (3, "localhost")] {
        let (near, _) = bind(config(Near::default(), None), identity(node, None)).await;
        held.push(near.clone());
        let came = linked(&near, Place::new(format!("{host}:{port}")), &mut events).await;
        assert_eq!(came.port(), 0, "{host}");
    }
}

#[tokio::test]
async fn a_node_that_listens_at_its_port_alone_is_reached_by_tcp() {
    let (server, mut events) = bind(config(Tcp::default(), loopback()), identity(1, None)).await;
    let (near, _near) = bind(config(Near::default(), None), identity(2, None)).await;
    assert_ne!(linked(&near, place_of(&server), &mut events).await.port(), 0);
}

#[tokio::test]
async fn messages_of_all_lanes_arrive_whole_both_ways() {
    let (server, mut at_server) = bind(config(Near::default(), loopback()), identity(1, None)).await;
    let (near, mut at_near) = bind(config(Near::default(), None), identity(2, None)).await;
    let there = near.link_introduced(&place_of(&server)).await.unwrap();
    at_near.up().await;
    let back = at_server.up().await;
    for bytes in [0, 100, 100 << 10, 5 << 20] {
        let sent = Bytes::from(vec![7; bytes]);
        for (link, events) in [(&there, &mut at_server), (&back, &mut at_near)] {
            link.send(Message { head: Bytes::new(), tail: sent.clone() }).await.unwrap();
            let came = match events.message().await {
                Incoming::Whole(message) => message.tail,
                Incoming::Head { .. } => match events.message().await {
                    Incoming::Tail { tail, .. } => tail,
                    other => panic!("{other:?}"),
                },
                Incoming::Tail { .. } => panic!("a tail without its head"),
            };
            assert!(came == sent, "{bytes} bytes");
        }
    }
}

#[tokio::test]
async fn nobody_there_is_said_as_by_tcp() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = Near::default().dial(&unused.to_string()).await.err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}
