//! A step done twice takes the same path, to the last byte.

use crate::host::{Guest, STARTED_AT_MS, cbor, run};

const SOURCE: &str = r#"import { call, log } from "catena";
export default async (x) => {
  const seen = new Map();
  for (let i = 0; i < 5; i++) {
    seen.set({}, Math.random());
    log(Math.random(), Date.now(), performance.now(), performance.timeOrigin);
    await call("t/echo", { i, r: Math.random() });
  }
  return [...seen.values()].sort();
};"#;

fn steps() -> Vec<(Vec<String>, Vec<u8>)> {
    let mut guest = Guest::with(SOURCE);
    let mut steps = Vec::new();
    let mut events = guest.start(&cbor("{\"a\": 1}"));
    for i in 0..6 {
        steps.push((events.iter().map(|e| e.text.clone()).collect(), guest.memory()));
        if i < 5 {
            events = guest.resume(i, true, &cbor("null"));
        }
    }
    steps
}

#[test]
fn the_same_inputs_give_the_same_events_and_the_same_memory() {
    let (a, b) = (steps(), steps());
    for (i, (one, other)) in a.iter().zip(&b).enumerate() {
        assert_eq!(one.0, other.0, "events of step {i}");
        assert!(one.1 == other.1, "memory after step {i}");
    }
}

#[test]
fn the_chain_has_one_time() {
    let text = run(
        "export default () => [Date.now(), new Date().getTime(), performance.timeOrigin + performance.now(), new Date().getTimezoneOffset(), typeof setTimeout];",
        "null",
        false,
    );
    let t = STARTED_AT_MS;
    assert_eq!(text, format!("[1, [{t}, {t}, {t}, 0, \"undefined\"]]"));
}

#[test]
fn random_numbers_are_spread_over_zero_to_one() {
    let text = run(
        "export default () => { const n = 10000, b = new Array(10).fill(0); for (let i = 0; i < n; i++) b[Math.floor(Math.random() * 10)]++; return b.every((c) => c > 850 && c < 1150); };",
        "null",
        false,
    );
    assert_eq!(text, "[1, true]");
}

#[test]
fn loading_twice_gives_one_image() {
    assert!(Guest::with(SOURCE).memory() == Guest::with(SOURCE).memory());
}

#[test]
fn what_a_program_drops_does_not_travel() {
    let source = "import { call } from \"catena\";\nexport default async () => {\n  let secret = Array.from({ length: 200 }, (_, i) => 'sec' + 'ret-' + i);\n  await call('t/echo', secret.length);\n  secret = null;\n  await call('t/echo', 0);\n};";
    let mut guest = Guest::with(source);
    let has_secret =
        |memory: &[u8]| memory.windows(9).filter(|w| w.starts_with(b"secret-") && w[7].is_ascii_digit()).count();
    guest.start(&cbor("null"));
    assert!(has_secret(&guest.memory()) >= 200);
    guest.resume(0, true, &cbor("null"));
    assert_eq!(has_secret(&guest.memory()), 0);
}

#[test]
fn the_source_text_is_not_kept() {
    let source = "// a remark of the author\nexport default function f(x) { return x /* another remark */; }";
    let memory = Guest::with(source).memory();
    assert!(!memory.windows(14).any(|w| w == b"another remark" || &w[..8] == b"a remark"));
}
