//! Decodes etcd's answers from JSON. Nothing in them is trusted: whoever can write to etcd can write anything.

use base64::{Engine, prelude::BASE64_STANDARD};
use catena_directory::ResolveError;
use serde::Deserialize;
use serde_json::Value;

/// Characters of an answer that are shown to people, at most.
const SHOWN_CHARS_MAX: usize = 200;

/// A key and its value, as etcd has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    /// The revision at which it was created: smaller is older.
    pub(crate) created: i64,
}

/// A change reported by a watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Put(Pair),
    Delete(String),
}

#[derive(Deserialize)]
struct RawPair {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    create_revision: String,
}

#[derive(Deserialize)]
struct RawEvent {
    #[serde(default, rename = "type")]
    kind: String,
    kv: RawPair,
}

impl RawPair {
    fn decoded(self) -> Option<Pair> {
        Some(Pair {
            key: String::from_utf8(BASE64_STANDARD.decode(self.key).ok()?).ok()?,
            value: BASE64_STANDARD.decode(self.value).ok()?,
            created: self.create_revision.parse().unwrap_or_default(),
        })
    }
}

/// An answer as it came.
pub(crate) fn parsed(bytes: &[u8]) -> Result<Value, ResolveError> {
    serde_json::from_slice(bytes).map_err(|why| ResolveError(format!("etcd answers what is no JSON: {why}")))
}

/// All pairs that were asked for, and the first revision that they do not cover.
pub(crate) fn listed(mut answer: Value) -> (Vec<Pair>, i64) {
    let revision = answer["header"]["revision"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0_i64);
    let pairs: Vec<RawPair> =
        answer.get_mut("kvs").and_then(|kvs| serde_json::from_value(kvs.take()).ok()).unwrap_or_default();
    (pairs.into_iter().filter_map(RawPair::decoded).collect(), revision.saturating_add(1))
}

/// Decodes one line of a watch; an error says why the watch has ended.
pub(crate) fn told(line: &[u8]) -> Result<Vec<Change>, ResolveError> {
    let mut told: Value =
        serde_json::from_slice(line).map_err(|why| ResolveError(format!("etcd tells what is no JSON: {why}")))?;
    if told.get("error").is_some() || told["result"]["canceled"].as_bool() == Some(true) {
        let shown: String = told.to_string().chars().take(SHOWN_CHARS_MAX).collect();
        return Err(ResolveError(format!("etcd watches no longer: {shown}")));
    }
    let events: Vec<RawEvent> = told
        .pointer_mut("/result/events")
        .and_then(|events| serde_json::from_value(events.take()).ok())
        .unwrap_or_default();
    let changes = events.into_iter().filter_map(|event| {
        let delete = event.kind == "DELETE";
        let pair = event.kv.decoded()?;
        Some(if delete { Change::Delete(pair.key) } else { Change::Put(pair) })
    });
    Ok(changes.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_pair_is_left_out_and_no_revision_is_too_large() {
        let kvs = json!([
            { "key": "L2E=", "value": "AQI=", "create_revision": "7" },
            { "key": "/a", "value": "AQI=" },
            { "key": "L2I=", "value": "!" },
        ]);
        let pair = Pair { key: "/a".into(), value: vec![1, 2], created: 7 };
        let answer = json!({ "header": { "revision": i64::MAX.to_string() }, "kvs": kvs });
        assert_eq!(listed(answer), (vec![pair], i64::MAX));
        assert_eq!(listed(json!({ "header": { "revision": "41" } })), (Vec::new(), 42));
        assert_eq!(listed(json!("nothing of this kind")), (Vec::new(), 1));
    }

    #[test]
    fn a_watch_tells_changes_until_it_is_cancelled() {
        let event = json!({ "type": "DELETE", "kv": { "key": "L2E=" } });
        let told_of = |events: Value| told(json!({ "result": { "events": events } }).to_string().as_bytes()).unwrap();
        assert_eq!(told_of(json!([event])), [Change::Delete("/a".into())]);
        assert!(told_of(json!([event, 3])).is_empty(), "of a line that is not understood nothing is taken");
        for end in [&br#"{"error": {}}"#[..], br#"{"result": {"canceled": true}}"#, b"nonsense"] {
            assert!(told(end).is_err());
        }
    }
}
