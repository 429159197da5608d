//! Calls and results that are long, between nodes of one host: they go in memory.

use catena::{Client, Exception, MessageCounts, Node, Place, Service, exceptions as names};
use serde_bytes::ByteBuf;
use std::time::Duration;

use super::{SOON, until};

/// Answers with what it is asked with, twice over.
async fn echo_node(shares: bool) -> Node {
    let twice = Service::new("echo").function("twice", async |bytes: ByteBuf| Ok(ByteBuf::from(bytes.repeat(2))));
    let builder = Node::builder("echo").listen("127.0.0.1:0").service(twice);
    let builder = if shares { builder } else { builder.without_shared_memory() };
    builder.start().await.unwrap()
}

async fn caller_of(node: &Node, shares: bool) -> Client {
    let builder = Client::builder("caller").join(Place::new(node.address().unwrap()));
    let builder = if shares { builder } else { builder.without_shared_memory() };
    builder.connect().await.unwrap()
}

async fn twice(client: &Client, byte: u8, count: usize) -> Result<(), Exception> {
    let got: ByteBuf = client.call("echo", "twice", &ByteBuf::from(vec![byte; count])).await?;
    assert!(got.len() == 2 * count && got.iter().all(|is| *is == byte), "{byte}");
    Ok(())
}

/// Calls and results that went and came in memory.
fn carried(client: &Client) -> (u64, u64) {
    let MessageCounts { carried, carried_here, .. } = client.message_counts();
    (carried, carried_here)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_one_host_long_calls_and_results_are_mapped_and_short_ones_sent() {
    let node = echo_node(true).await;
    let client = caller_of(&node, true).await;
    let far = node.client();
    twice(&client, 0, 1_000).await.unwrap();
    assert_eq!((carried(&client), carried(&far)), ((0, 0), (0, 0)), "what is short goes by the link");
    // The first wait together until the memory is mapped.
    let before = client.traffic();
    let all = (1..=8).map(|byte| twice(&client, byte, 300_000));
    futures_util::future::try_join_all(all).await.unwrap();
    for byte in 10..14 {
        twice(&client, byte, 300_000).await.unwrap();
    }
    until(|| carried(&client) == (12, 12) && carried(&far) == (12, 12)).await;
    let crossed = |client: &Client| {
        let now = client.traffic();
        now.sent_bytes + now.received_bytes - before.sent_bytes - before.received_bytes
    };
    assert!(crossed(&client) < 100_000, "{} bytes crossed the link", crossed(&client));
    // More than a buffer may be of what is lent: both ways, and then one.
    twice(&client, 20, 5_000_000).await.unwrap();
    twice(&client, 21, 3_000_000).await.unwrap();
    until(|| carried(&client) == (13, 12) && carried(&far) == (12, 13)).await;
    assert!(crossed(&client) > 20_000_000);
    until(|| client.message_load().1 == 0 && far.message_load().1 == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_by_the_link_to_whoever_cannot_map_them() {
    for (server, caller) in [(false, true), (true, false)] {
        let node = echo_node(server).await;
        let client = caller_of(&node, caller).await;
        for byte in 0..8 {
            twice(&client, byte, 300_000).await.unwrap();
        }
        assert_eq!((carried(&client), carried(&node.client())), ((0, 0), (0, 0)));
        // Whoever cannot map says so, and is asked no more after a while.
        let lent = (client.message_counts().lent, node.client().message_counts().lent);
        assert_eq!(lent, if caller { (4, 0) } else { (0, 4) });
        until(|| client.message_load().1 == 0 && node.client().message_load().1 == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partner_that_dies_in_the_middle_of_long_calls_ends_them_and_leaves_nothing() {
    let node = echo_node(true).await;
    let client = caller_of(&node, true).await;
    twice(&client, 0, 500_000).await.unwrap();
    let all = (0..16).map(|byte| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut done = 0;
            loop {
                match twice(&client, byte, 500_000).await {
                    Ok(()) => done += 1,
                    Err(why) => return (done, why),
                }
            }
        })
    });
    let all: Vec<_> = all.collect();
    until(|| carried(&client).1 > 20).await;
    node.close(Duration::ZERO).await;
    for ended in all {
        let (_, why) = tokio::time::timeout(SOON, ended).await.expect("a call hangs").unwrap();
        let lost = [names::NODE_LOST, names::NODE_UNREACHABLE, names::UNKNOWN_SERVICE];
        assert!(lost.contains(&why.name.as_str()), "{why}");
    }
    until(|| client.message_load() == (0, 0, 0)).await;
}
