//! Objects of the image are never counted and never freed, and all others are, whatever a function does with both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena_guest::{Limits, SandboxConfig};
use common::{Way, config, load_js, run, sandbox};
use serde_json::json;

/// Each makes several times as much garbage as there may be memory, whose cycles run through objects of the image, and travels
/// between its rounds. `i` is the round.
const CHURNS: [(&str, &str, &str); 8] = [
    (
        "cycles",
        "",
        "let a = { n: i }; for (let j = 0; j < 200; j++) a = { a, up: [a], fill: 'x'.repeat(500) }; a.last = a; sum += a.up.length;",
    ),
    (
        "cycles through built-ins",
        "",
        "for (let j = 0; j < 200; j++) { const o = { f: () => o, p: Array.prototype, s: 'y'.repeat(500) + j }; Array.prototype.held = o; Object.keys.held = [o, Object]; } sum += Array.prototype.held.f().p === Array.prototype ? 1 : 0;",
    ),
    (
        "built-ins deleted and replaced",
        "",
        "const { map } = Array.prototype; delete Array.prototype.map; Array.prototype.map = map; const log = Math.log; Math.log = () => i; Math.log = log; const all = Array.from({ length: 3000 }, (_, j) => ({ j, all: null })); all.map((o) => (o.all = all)); sum += [1].map((x) => x)[0];",
    ),
    (
        "shapes of built-ins",
        "",
        "for (let j = 0; j < 300; j++) { const name = 'p' + i + '_' + j; Function.prototype[name] = { name, fill: new Uint8Array(500) }; delete Function.prototype[name]; } sum += Function.prototype['p' + i + '_0'] === undefined ? 1 : 0;",
    ),
    (
        "what the module holds",
        "let held = { first: true }; const list = []; class Kept { static all = new Map(); #own = this; own() { return this.#own; } }",
        "held = { held: null, fill: 'z'.repeat(200) }; held.held = held; list.length = 0; for (let j = 0; j < 400; j++) list.push(new Kept().own(), new Uint8Array(300)); Kept.all = new Map([[held, list]]); sum += Kept.all.size;",
    ),
    (
        "symbols, weak maps and references to built-ins",
        "const weak = new WeakMap([[Array, 1]]); const refs = new WeakRef(Object);",
        "for (let j = 0; j < 300; j++) { const key = { j, fill: 'k'.repeat(300) }; weak.set(key, [key, Map]); weak.set(Map, key); const s = Symbol('s' + j); Map[s] = s; delete Map[s]; } sum += weak.get(Array) + (refs.deref() === Object ? 0 : 1);",
    ),
    (
        "closures, generators and async functions",
        "async function* numbers(n) { for (let j = 0; j < n; j++) yield { j, numbers }; }",
        "let n = 0; for await (const o of numbers(150)) { const f = () => [f, o, numbers, 'c'.repeat(500)]; n += f()[1].j >= 0 ? 1 : 0; } await Promise.all(Array.from({ length: 50 }, async () => { await null; n++; })); sum += n / 200;",
    ),
    (
        "strings of the image",
        "const text = 'a string of the image'.repeat(3); const parts = text.split(' ');",
        "let s = text; for (let j = 0; j < 300; j++) { s = text + j + s.slice(0, 400); parts.push(s.slice(3)); parts.pop(); new RegExp(parts[0] + j).test(s); } sum += s.startsWith(text) ? 1 : 0;",
    ),
];

#[tokio::test]
async fn garbage_around_objects_of_the_image_is_freed_and_they_are_not() {
    let limits = Limits { memory_bytes_max: 8 << 20, step_wall_ms_max: 60_000, ..Limits::default() };
    let sandbox = sandbox(SandboxConfig { limits, ..config() });
    for (what, module, round) in CHURNS {
        let source = format!(
            "import {{ call }} from 'catena';\n{module}\nexport default async (rounds) => {{ let sum = 0; for (let i = 0; i < rounds; i++) {{ {round} if (i % 50 === 0) await call('w/echo', i); }} return sum; }};"
        );
        let image = load_js(&sandbox, &source).await.unwrap();
        let shown = run([&sandbox, &sandbox], [&image, &image], &json!(200), Way::Moving).await;
        let shown = shown.unwrap_or_else(|exception| panic!("{what}: {exception:?}"));
        assert_eq!(shown.end, Some(Ok(json!(200))), "{what}");
    }
}
