//! Whoever can write to etcd can write anything: whatever it answers, nobody is found under a name, or as a run, that is
//! not its key's, and what is deleted is gone.
#![no_main]
#![allow(dead_code, reason = "of the crate's own modules a part is used; the crate itself brings an HTTP client")]

#[path = "../../../directory/etcd/src/answer.rs"]
mod answer;
#[path = "../../../directory/etcd/src/mirror.rs"]
mod mirror;

use answer::{Change, listed, parsed, told};
use arbitrary::Arbitrary;
use base64::{Engine, prelude::BASE64_STANDARD};
use catena_directory::{Kinds, NodeId, NodeRef, ServiceEntry};
use libfuzzer_sys::fuzz_target;
use mirror::{Mirror, key_of};
use serde_json::{Value, json};

const PREFIX: &str = "/p";
const SERVICES: u8 = 4;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Bytes in the place of an answer to a range request.
    Listed(Vec<u8>),
    /// Bytes in the place of a line of a watch.
    Told(Vec<u8>),
    Answer {
        revision: String,
        pairs: Vec<Written>,
    },
    Line {
        deleted: bool,
        pairs: Vec<Written>,
    },
}

/// What somebody wrote: the key of one instance, and what may be said of another.
#[derive(Arbitrary, Debug)]
struct Written {
    key: (u8, u8),
    created: String,
    value: Stored,
}

#[derive(Arbitrary, Debug)]
enum Stored {
    Bytes(Vec<u8>),
    Entry(u8, u8),
}

fn name(service: u8) -> String {
    format!("s{}", service % SERVICES)
}

fn entry(service: u8, run: u8) -> Vec<u8> {
    let node = NodeRef { id: NodeId(run.into()), name: "n".into(), address: Some("h:1".into()), site: None };
    let (service, functions, kinds) = (name(service), Vec::new(), Kinds::default());
    minicbor::to_vec(ServiceEntry { service, functions, node, kinds, proxy: None }).expect("memory")
}

fn as_json(written: &Written) -> Value {
    let (service, run) = written.key;
    let value = match &written.value {
        Stored::Bytes(bytes) => bytes.clone(),
        Stored::Entry(service, run) => entry(*service, *run),
    };
    let key = BASE64_STANDARD.encode(key_of(PREFIX, &name(service), run.into()));
    json!({ "key": key, "value": BASE64_STANDARD.encode(value), "create_revision": written.created })
}

fn replace(mirror: &mut Mirror, answer: Value) {
    let (pairs, first) = listed(answer);
    assert!(first > i64::MIN, "a watch can begin there");
    mirror.replace(pairs);
}

fn apply(mirror: &mut Mirror, line: &[u8]) {
    let Ok(changes) = told(line) else { return };
    let last = changes.last().cloned();
    mirror.apply(changes);
    if let Some(Change::Delete(key)) = last {
        assert!(!mirror.has(&key), "{key} was deleted");
    }
}

fuzz_target!(|operations: Vec<Operation>| {
    let mut mirror = Mirror::default();
    for operation in operations {
        match operation {
            Operation::Listed(bytes) => {
                if let Ok(answer) = parsed(&bytes) {
                    replace(&mut mirror, answer);
                }
            }
            Operation::Told(line) => apply(&mut mirror, &line),
            Operation::Answer { revision, pairs } => {
                let kvs: Vec<Value> = pairs.iter().map(as_json).collect();
                let many = kvs.len();
                let answer = json!({ "header": { "revision": revision }, "kvs": kvs });
                assert_eq!(listed(answer.clone()).0.len(), many, "what is well said is understood");
                replace(&mut mirror, answer);
            }
            Operation::Line { deleted, pairs } => {
                let kind = if deleted { "DELETE" } else { "PUT" };
                let events: Vec<Value> =
                    pairs.iter().map(|pair| json!({ "type": kind, "kv": as_json(pair) })).collect();
                apply(&mut mirror, json!({ "result": { "events": events } }).to_string().as_bytes());
            }
        }
        for service in (0..SERVICES).map(name) {
            for entry in mirror.instances(PREFIX, &service) {
                assert_eq!(entry.service, service);
                let key = key_of(PREFIX, &service, entry.node.id.0);
                assert!(!mirror.keys_beside(&key).is_empty(), "{entry:?} is under no key of its run");
            }
        }
    }
});
