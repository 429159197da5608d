//! Where chains run and how answers get home: proxies, backups, repositories, origins that nobody can dial.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{sync::Arc, sync::atomic::AtomicU64, time::Duration};

use catena::{Client, Node, NodeBuilder, Place, Policy, RunOptions, from_value, to_value};
use common::{SANDBOX, service};
use serde_json::{Value as Json, json};

async fn node(name: &str, serves: &str, join: &[&Node], adjust: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Node {
    let builder = Node::builder(name).listen("127.0.0.1:0").sandbox(SANDBOX.clone());
    let builder = adjust(builder.service(service(serves, &Arc::new(AtomicU64::new(0)))));
    join.iter().fold(builder, |builder, node| builder.join(place(node))).start().await.unwrap()
}

fn place(node: &Node) -> Place {
    Place::new(node.address().unwrap())
}

async fn client(joins: &[&Node]) -> Client {
    let builder = Client::builder("client").sandbox(SANDBOX.clone());
    joins.iter().fold(builder, |builder, node| builder.join(place(node))).connect().await.unwrap()
}

async fn run(client: &Client, source: &str) -> (Json, Vec<String>) {
    let code = client.javascript("test.js", source).await.unwrap();
    let mut replies = client.run_with(&code, &to_value(&()).unwrap(), &RunOptions::default()).unwrap();
    let value = replies.last().await.unwrap();
    (from_value(&value).unwrap(), replies.path().to_vec())
}

const BOTH: &str = r#"import { call } from "catena";
    export default async () => [await call("a/where", null), await call("b/where", null)];"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_no_foreign_code_has_its_chains_run_at_its_proxy() {
    let proxy = node("proxy", "p", &[], NodeBuilder::hosts_chains_for_others).await;
    let address = proxy.address().unwrap().to_owned();
    // Whatever else is said of its protocol, and when.
    let a = node("a", "a", &[&proxy], |builder| builder.chaining_proxy(address).policy(Policy::default())).await;
    let b = node("b", "b", &[&proxy, &a], |builder| builder).await;
    // Whichever of the two is met first, and also if the proxy is not met at all.
    for joined in [&[&proxy, &a, &b][..], &[&a, &b, &proxy], &[&b, &a]] {
        let client = client(joined).await;
        let (got, path) = run(&client, BOTH).await;
        assert_eq!(got, json!(["a", "b"]));
        assert_eq!(path, ["client", "proxy", "b"], "the function was never at a");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_proxy_such_a_server_is_called_from_where_the_chain_is() {
    let a = node("a", "a", &[], |builder| builder.chaining_proxy("127.0.0.1:1")).await;
    let b = node("b", "b", &[&a], |builder| builder).await;
    let client = client(&[&a, &b]).await;
    let (got, path) = run(&client, BOTH).await;
    assert_eq!(got, json!(["a", "b"]));
    assert_eq!(path, ["client", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_its_backup_when_its_node_is_gone() {
    let first = node("first", "a", &[], |builder| builder).await;
    let second = node("second", "a", &[&first], |builder| builder).await;
    let b = node("b", "b", &[&first, &second], |builder| builder).await;
    let client = client(&[&first, &second, &b]).await;
    let (before, _) = run(&client, BOTH).await;
    assert_eq!(before[1], "b");
    let (gone, stays) = if before[0] == "first" { (&first, "second") } else { (&second, "first") };
    gone.close(Duration::from_secs(1)).await;
    let (got, path) = run(&client, BOTH).await;
    assert_eq!(got, json!([stays, "b"]));
    assert_eq!(path, ["client", stays, "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_too_large_to_ride_along_comes_from_the_repository_or_the_hop_before() {
    let keeper = node("keeper", "k", &[], NodeBuilder::repository).await;
    let a = node("a", "a", &[&keeper], |builder| builder).await;
    let b = node("b", "b", &[&keeper, &a], |builder| builder).await;
    let client = client(&[&keeper, &a, &b]).await;
    let large = |salt: u32| format!("{BOTH}\n// {salt} {}", "x".repeat(100_000));
    assert_eq!(run(&client, &large(1)).await.0, json!(["a", "b"]));
    keeper.close(Duration::from_secs(1)).await;
    assert_eq!(run(&client, &large(2)).await.0, json!(["a", "b"]), "without it, the hop before has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_find_a_client_that_nobody_can_dial_by_the_node_of_its_entry() {
    let entry = node("entry", "e", &[], |builder| builder).await;
    let a = node("a", "a", &[&entry], |builder| builder).await;
    let _b = node("b", "b", &[&entry, &a], |builder| builder).await;
    let behind = Client::builder("behind").sandbox(SANDBOX.clone()).join(place(&entry)).entry_only();
    let client = behind.connect().await.unwrap();
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            const entered = await call("e/where", null);
            emit(await call("a/where", null));
            return [entered, await call("b/where", null)];
        };"#;
    let code = client.javascript("test.js", source).await.unwrap();
    let mut replies = client.run(&code, &()).await.unwrap();
    let partial = replies.next().await.unwrap().unwrap();
    assert_eq!(partial, catena::Reply::Partial(to_value("a").unwrap()));
    let last: Json = from_value(&replies.last().await.unwrap()).unwrap();
    assert_eq!(last, json!(["entry", "b"]));
    assert_eq!(replies.path(), ["behind", "entry", "a", "b"]);
}
