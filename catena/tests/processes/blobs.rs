//! Values by reference between processes: what they cost, and what becomes of them when their owner does not live up to it.

use std::time::Duration;

use catena::{Blob, BlobBytes, RunOptions, exceptions, to_value};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::{
    held::HeldPort,
    nodes::{Nodes, ask, run},
    process::PATIENCE,
    relay::Relay,
};

/// Paints at `a`, goes on to `b`, and looks at the picture there after `between`.
const LOOK: &str = r#"import { call, emit } from "catena";
    export default async ({ bytes, between }) => {
        const picture = await call("a/paint", { bytes });
        await call("b/where", null);
        emit({ size: picture.size, type: picture.type });
        if (between) await call(...between);
        try {
            return { seen: await call("b/look", picture), part: Array.from(await picture.slice(1, 4).bytes()) };
        } catch (why) {
            return { name: why.name, message: why.message };
        }
    };"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_read_where_it_is_looked_at_and_its_owner_is_named_when_it_is_lost() {
    let (mut nodes, client) = Nodes::patient(&["a", "b"]).await;
    let ended = run(&client, LOOK, json!({ "bytes": 1_000_000 })).await;
    assert_eq!(ended.emitted, [json!({ "size": 1_000_000, "type": "image/x-test" })]);
    let sum: u64 = (0..1_000_000_u32).map(|at| u64::from(at.to_le_bytes()[0])).sum();
    let seen = &ended.value()["seen"];
    assert_eq!(*seen, json!({ "size": 1_000_000, "type": "image/x-test", "sum": sum, "by": "a" }));
    assert_eq!(ended.value()["part"], json!([1, 2, 3]));
    assert_eq!(ended.path, ["client", "a", "b"], "reading takes no hop");
    let looked = ended.trace.iter().find(|step| step.target == "b/look").and_then(|step| step.blobs.as_deref());
    let mapped = BlobBytes { shared_memory: 1_000_000, ..BlobBytes::default() };
    assert_eq!(looked, Some(&mapped), "on one host nothing is sent");

    let chain = crate::nodes::begin(
        &client,
        LOOK,
        json!({ "bytes": 5_000_000, "between": ["b/note", { "text": "now", "wait": "after" }] }),
    );
    nodes.process("b").says("b noted now").await;
    nodes.kill("a").await;
    ask::<()>(&client, "b", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    assert_eq!(ended.value()["name"], exceptions::BLOB_LOST, "{}", ended.value());
    assert!(ended.value()["message"].as_str().unwrap().contains("its owner a is lost"), "{}", ended.value());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_ends_with_its_time_or_when_its_owner_takes_it_back() {
    let (_nodes, client) = Nodes::patient_with(&[("a", &["--blob-grace-ms", "1"]), ("b", &[])]).await;
    let paint = json!({ "bytes": 100, "keep_ms": 1 });
    let short: Blob = client.call("a", "paint", &paint).await.unwrap();
    let kept: Blob = client.call("a", "paint", &json!({ "bytes": 100 })).await.unwrap();
    assert_eq!(kept.bytes().await.unwrap().len(), 100);
    assert!(!client.call::<_, bool>("b", "discard", &kept).await.unwrap(), "only its owner can give it up");
    assert!(client.call::<_, bool>("a", "discard", &kept).await.unwrap());
    assert!(!client.call::<_, bool>("a", "discard", &kept).await.unwrap(), "once");
    while short.bytes().await.is_ok() {}
    for (blob, what) in [(&kept, "given up"), (&short, "over")] {
        let why = blob.bytes().await.unwrap_err();
        assert_eq!(why.name, exceptions::BLOB_LOST, "{what}: {why}");
        assert!(why.message.contains("its owner a has it no longer"), "{what}: {why}");
        let why = client.call::<_, Json>("b", "look", blob).await.unwrap_err();
        assert_eq!(why.name, exceptions::BLOB_LOST, "{what}, where it is used: {why}");
    }
    // Of a chain: until that is over, which it might have taken ten minutes for.
    let options = RunOptions { timeout: Duration::from_secs(600), ..RunOptions::default() };
    let code = client.javascript(
        "test.js",
        r#"import { call } from "catena";
        export default () => call("a/paint", { bytes: 100 });"#,
    );
    let replies = client.run_with(&code.await.unwrap(), &to_value(&()).unwrap(), &options).unwrap();
    let of_chain: Blob = replies.value().await.unwrap();
    let over = async {
        loop {
            if let Err(why) = of_chain.bytes().await {
                break why;
            }
        }
    };
    let over = timeout(PATIENCE, over).await.expect("it is over with its chain");
    assert_eq!(over.name, exceptions::BLOB_LOST, "{over}");
    // Somebody else's number has another blob by now, or none: nothing of it is read by an old reference.
    let other: Blob = client.call("a", "paint", &json!({ "bytes": 100 })).await.unwrap();
    assert_eq!(kept.bytes().await.unwrap_err().name, exceptions::BLOB_LOST);
    assert_eq!(other.bytes().await.unwrap().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cut_interrupts_is_read_on_by_another_link() {
    const BYTES: u32 = 40_000_000;
    let held = HeldPort::new();
    let listen = held.address.to_string();
    let relay = Relay::to(listen.clone()).await;
    let mut nodes = Nodes::default();
    nodes.add("a", &["--listen", &listen, "--advertise", &relay.address]).await;
    let client = nodes.client().await;
    let picture: Blob = client.call("a", "paint", &json!({ "bytes": BYTES })).await.unwrap();
    let (mut whole, mut cut) = (Vec::new(), false);
    let show = |written| {
        if written > u64::from(BYTES) / 4 && !std::mem::replace(&mut cut, true) {
            relay.cut();
        }
    };
    picture.copy_to(&mut whole, show).await.unwrap();
    assert!(whole.iter().enumerate().all(|(at, byte)| at.to_le_bytes()[0] == *byte) && whole.len() == BYTES as usize);
}
