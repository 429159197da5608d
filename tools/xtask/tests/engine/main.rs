//! The engine as the guest ABI describes it, driven by plain wasmtime.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, missing_docs)]

mod errors;
mod host;
mod limits;
mod same;
mod survives;
mod values;

use host::{Guest, cbor, run};

#[test]
fn the_first_example_of_the_design_runs() {
    let source = r#"import { call, emit } from "catena";
export default async function openMail({ user, id }) {
  const mail = await call("mail.storage/get", { user, id });
  if (mail.size > 1e6) emit({ subject: mail.subject });
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}"#;
    let mut guest = Guest::with(source);
    let events = guest.start(&cbor(r#"{"user": "ann", "id": 7}"#));
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].text, r#"[0, 0, "mail.storage", "get", {"user": "ann", "id": 7}, 3, 22]"#);
    let events = guest.resume(0, true, &cbor(r#"{"size": 2000000, "subject": "hi", "body": "b"}"#));
    let texts: Vec<&str> = events.iter().map(|e| e.text.as_str()).collect();
    assert_eq!(texts, [r#"[3, {"subject": "hi"}]"#, r#"[0, 1, "ads", "pick", {"text": "b"}, 5, 45]"#]);
    let events = guest.resume(1, true, &cbor(r#""ad!""#));
    assert_eq!(events[0].text, r#"[1, {"body": "b", "size": 2000000, "subject": "hi", "ad": "ad!"}]"#);
}

#[test]
fn a_plain_function_is_enough() {
    assert_eq!(run("export default (x) => x + 1", "41", false), "[1, 42]");
}

#[test]
fn replies_are_asked_for_at_once_read_in_batches_and_left_at_a_break() {
    let source = r#"import { call, emit, replies } from "catena";
export default async (partial) => {
  const set = replies("search/find", 7, { partial });
  for await (const reply of set) {
    emit(reply);
    if (reply === "enough") break;
  }
  return call("a/b", [set.ended, set.missing]);
}"#;
    let texts = |events: Vec<host::Event>| events.into_iter().map(|event| event.text).collect::<Vec<_>>();
    let mut guest = Guest::with(source);
    assert_eq!(texts(guest.start(&cbor("false"))), [r#"[9, 0, "search", "find", 7, 3, 15]"#]);
    assert_eq!(texts(guest.resume(0, true, &cbor("[[1, 2], null]"))), ["[3, 1]", "[3, 2]", "[10, 1, 0]"]);
    let events = texts(guest.resume(1, true, &cbor(r#"[["enough", 3], null]"#)));
    assert_eq!(events, [r#"[3, "enough"]"#, "[11, 0]", r#"[0, 2, "a", "b", ["failure", []], 8, 34]"#]);

    // What is missing is thrown after the last reply, or can be looked at.
    let missing =
        r#"[[1], [[["c/d", null, {"name": "Lost", "message": "gone"}]], {"name": "Lost", "message": "gone"}, false]]"#;
    let mut guest = Guest::with(source);
    guest.start(&cbor("false"));
    let events = texts(guest.resume(0, true, &cbor(missing)));
    assert!(events[0] == "[3, 1]" && events[1].starts_with(r#"[2, {"name": "Lost", "message": "gone""#), "{events:?}");
    for (told, ended) in [(missing.to_owned(), "exception"), (missing.replace("false", "true"), "failure")] {
        let mut guest = Guest::with(source);
        guest.start(&cbor("true"));
        let events = texts(guest.resume(0, true, &cbor(&told)));
        let expected = format!(r#"["{ended}", [{{"target": "c/d", "node": null, "why": {{"name": "Lost""#);
        assert!(events[1].contains(&expected), "{events:?}");
    }
}
