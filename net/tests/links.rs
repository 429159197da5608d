//! Links over real TCP on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use catena_net::{
    EndpointConfig, Incoming, LinkError, MEDIUM_BYTES_MAX, Measured, Message, NetError, Place, SendRefused,
};
use support::{Event, bind, identity, loopback, measured_beyond, place_of, try_bind};

fn listening() -> EndpointConfig {
    EndpointConfig { listen: loopback(), ..EndpointConfig::default() }
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 + i / 251 + seed) as u8).collect()
}

#[tokio::test]
async fn every_size_arrives_whole_in_both_directions() {
    let (server, mut at_server) = bind(listening(), identity(1, None)).await;
    let (client, mut at_client) = bind(EndpointConfig::default(), identity(2, None)).await;
    let out = client.link(&place_of(&server)).await.unwrap();
    assert_eq!(out.introduced().await.unwrap(), &identity(1, None));
    let back = at_server.up().await;
    assert_eq!(back.identity(), Some(&identity(2, None)));
    at_client.up().await;

    let sizes = [0, 1, 100, 8_192, 16_384, 16_385, 20_000, MEDIUM_BYTES_MAX, MEDIUM_BYTES_MAX + 1, 5_000_000];
    for (from, events) in [(&out, &mut at_server), (&back, &mut at_client)] {
        for head in sizes {
            for tail in sizes {
                let message = Message::new(pattern(head, 1), pattern(tail, 2));
                from.send(message.clone()).await.unwrap();
                let got = match events.message().await {
                    Incoming::Whole(message) => message,
                    Incoming::Head { id, head, tail_bytes } => {
                        assert!(message.bytes() > 16_384, "small messages come whole");
                        assert_eq!(tail_bytes, tail);
                        let Incoming::Tail { id: tail_id, tail } = events.message().await else { panic!("no tail") };
                        assert_eq!(tail_id, id);
                        Message { head, tail }
                    }
                    other => panic!("{other:?}"),
                };
                assert!(got == message, "{head} + {tail} bytes came changed");
            }
        }
    }
    assert_eq!(out.stats().messages_sent, 100);
    assert_eq!(back.stats().messages_received, 100);
    assert_eq!(out.stats().queued_bytes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_messages_keep_their_order() {
    let (server, mut at_server) = bind(listening(), identity(1, None)).await;
    let (client, _events) = bind(EndpointConfig::default(), identity(2, None)).await;
    let link = client.link(&place_of(&server)).await.unwrap();
    tokio::spawn(async move {
        for n in 0..20_000_u32 {
            let message = Message::head(n.to_le_bytes().to_vec());
            match n % 3 {
                0 => link.send_lazily(message).unwrap_or(()),
                _ => link.send(message).await.unwrap(),
            }
            if n % 1000 == 0 {
                link.send(Message::new(vec![0; 4], vec![9; 300_000])).await.unwrap();
            }
        }
    });
    at_server.up().await;
    let mut expected = 0_u32;
    while expected < 20_000 {
        if let Incoming::Whole(message) = at_server.message().await {
            assert_eq!(message.head[..], expected.to_le_bytes());
            expected += 1;
        }
    }
}

#[tokio::test]
async fn callers_at_the_same_time_share_one_dial_and_the_link_lasts() {
    let (server, mut at_server) = bind(listening(), identity(1, None)).await;
    let (client, _events) = bind(EndpointConfig::default(), identity(2, None)).await;
    let place = place_of(&server);
    let (a, b, c) = tokio::join!(client.link(&place), client.link(&place), client.link(&place));
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert!(std::ptr::eq(&*a, &*b) && std::ptr::eq(&*b, &*c));
    a.introduced().await.unwrap();
    let up = at_server.up().await;
    assert!(std::ptr::eq(&*client.link(&place).await.unwrap(), &*a));
    assert!(std::ptr::eq(&*server.link_to_node(2).unwrap(), &*up));
    assert!(server.link_to_node(3).is_none());
    assert_eq!((server.links().len(), client.links().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_links_are_measured_too() {
    let (server, mut at_server) = bind(listening(), identity(1, None)).await;
    let (client, _events) = bind(EndpointConfig::default(), identity(2, None)).await;
    let link = client.link(&place_of(&server)).await.unwrap();
    let back = at_server.up().await;
    let near = measured_beyond(&link, Measured::default()).await;
    assert!(near.round_trip_us.is_some());
    // On a machine that has other things to do, many a message says nothing about the link.
    while back.measured().bytes_per_s.is_none() {
        link.send(Message::new(vec![1], vec![2; 5_000_000])).await.unwrap();
    }
    let known = back.measured();
    // Beyond any doubt on loopback, and no more than memory brings.
    let bytes_per_s = known.bytes_per_s.unwrap_or_default();
    assert!((10_000_000..1_000_000_000_000).contains(&bytes_per_s), "{bytes_per_s}");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let (server, _events) = bind(listening(), identity(1, None)).await;
    let address = server.local_address().unwrap();
    let config = EndpointConfig { listen: Some(address), ..EndpointConfig::default() };
    let error = try_bind(config, identity(2, None)).await.err();
    assert_eq!(error, Some(NetError::AddressInUse { address: address.to_string() }));
}

#[tokio::test]
async fn nobody_there_is_an_error_and_a_later_dial_works() {
    let (server, _events) = bind(listening(), identity(1, None)).await;
    let place = place_of(&server);
    server.close(Duration::ZERO).await;
    drop(server);
    let (client, _client_events) = bind(EndpointConfig::default(), identity(2, None)).await;
    let error = client.link(&place).await.unwrap_err();
    assert!(matches!(&error, NetError::Unreachable { address, .. } if *address == place.address), "{error}");
    let config = EndpointConfig { listen: Some(place.address.parse().unwrap()), ..EndpointConfig::default() };
    let (_server, mut events) = bind(config, identity(1, None)).await;
    client.link(&place).await.unwrap().introduced().await.unwrap();
    events.up().await;
    let nowhere = client.link(&Place::new("no port here")).await.unwrap_err();
    assert!(matches!(nowhere, NetError::Unreachable { .. }), "{nowhere}");
}

#[tokio::test]
async fn closing_sends_what_was_queued() {
    let (server, mut at_server) = bind(listening(), identity(1, None)).await;
    let (client, mut at_client) = bind(EndpointConfig::default(), identity(2, None)).await;
    let link = client.link(&place_of(&server)).await.unwrap();
    link.introduced().await.unwrap();
    at_client.up().await;
    for _ in 0..10 {
        link.send(Message::new(vec![1], vec![2; 3_000_000])).await.unwrap();
    }
    link.send_lazily(Message::head(&b"last"[..])).unwrap();
    client.close(Duration::from_secs(30)).await;
    assert!(matches!(at_client.lost().await, LinkError::Closed { .. }));
    assert!(matches!(link.send(Message::default()).await, Err(LinkError::Closed { .. })));
    assert_eq!(client.link(&place_of(&server)).await.unwrap_err(), NetError::Closed);
    at_server.up().await;
    let (mut tails, mut last) = (0, false);
    loop {
        match at_server.next().await {
            Event::Message(Incoming::Tail { tail, .. }) => tails += usize::from(tail.len() == 3_000_000),
            Event::Message(Incoming::Whole(message)) => last = message.head == b"last"[..],
            Event::Message(_) => {}
            Event::Lost(why) => {
                assert!(matches!(why, LinkError::PeerClosed { mid_message: false, .. }), "{why}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((tails, last), (10, true));
}

#[tokio::test]
async fn dropping_the_endpoint_ends_its_links() {
    let (server, mut at_server) = bind(listening(), identity(1, None)).await;
    let (client, mut at_client) = bind(EndpointConfig::default(), identity(2, None)).await;
    let link = client.link(&place_of(&server)).await.unwrap();
    link.introduced().await.unwrap();
    at_server.up().await;
    at_client.up().await;
    drop(client);
    assert!(matches!(at_client.lost().await, LinkError::Closed { .. }));
    assert!(matches!(at_server.lost().await, LinkError::PeerClosed { .. } | LinkError::Io { .. }));
    assert!(matches!(link.send(Message::default()).await, Err(LinkError::Closed { .. })));
    assert!(server.links().is_empty());
}

#[tokio::test]
async fn more_links_than_allowed_are_refused_on_both_sides() {
    let (server, mut at_server) = bind(EndpointConfig { links_max: 1, ..listening() }, identity(1, None)).await;
    let (other, _other_events) = bind(listening(), identity(3, None)).await;
    let (client, _events) = bind(EndpointConfig { links_max: 1, ..EndpointConfig::default() }, identity(2, None)).await;
    let first = client.link(&place_of(&server)).await.unwrap();
    first.introduced().await.unwrap();
    at_server.up().await;
    let error = client.link(&place_of(&other)).await.unwrap_err();
    assert_eq!(error, NetError::TooManyLinks { address: place_of(&other).address, links_max: 1 });
    let turned_away = other.link(&place_of(&server)).await.unwrap();
    assert!(matches!(at_server.refused().await, LinkError::TooManyLinks { links_max: 1, .. }));
    assert!(turned_away.introduced().await.is_err());
    first.send(Message::head(&b"still here"[..])).await.unwrap();
    assert!(matches!(at_server.message().await, Incoming::Whole(_)));
}

#[tokio::test]
async fn a_message_the_peer_does_not_take_is_refused_here() {
    let mut config = listening();
    config.limits.message_bytes_max = 2 << 20;
    let (server, mut at_server) = bind(config, identity(1, None)).await;
    let (client, _events) = bind(EndpointConfig::default(), identity(2, None)).await;
    let link = client.link(&place_of(&server)).await.unwrap();
    let error = link.send(Message::new(vec![], vec![0; 3 << 20])).await.unwrap_err();
    assert!(matches!(error, LinkError::TooLarge { bytes: 3_145_728, bytes_max: 2_097_152, .. }), "{error}");
    let refused = link.try_send(Message::new(vec![0; 1 << 20], vec![0; 2 << 20])).unwrap_err();
    let SendRefused::Broken(why) = refused else { panic!("{refused}") };
    assert_eq!(why, error, "both say the same, with both sizes");
    assert!(link.ended().is_none(), "the link lives on");
    link.send(Message::head(&b"fine"[..])).await.unwrap();
    at_server.up().await;
    assert!(matches!(at_server.message().await, Incoming::Whole(_)));
}

#[tokio::test]
async fn a_configuration_that_contradicts_itself_is_refused() {
    let mut config = EndpointConfig::default();
    config.limits.receive_bytes_max = config.limits.message_bytes_max;
    let error = try_bind(config, identity(2, None)).await.err();
    assert!(matches!(&error, Some(NetError::Config { what }) if what.contains("receive_bytes_max")), "{error:?}");
}
