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
