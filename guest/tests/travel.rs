//! Everything that a JavaScript function may keep across an await survives a move, at every await.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{NODES, Shown, Way, config, load_js, run, sandbox};
use serde_json::{Value as Json, json};

/// What is kept, the function's body (`hop()` awaits a call that answers null), and what it returns.
fn programs() -> Vec<(&'static str, &'static str, Json)> {
    vec![
        (
            "locals and closures",
            "let n = 1; const add = (d) => (n += d); await hop(); add(2); await hop(); add(3); return n;",
            json!(6),
        ),
        (
            "a closure made before and called after, sharing a variable with another",
            "let n = 0; const up = () => ++n, get = () => n; await hop(); up(); await hop(); up(); return [get(), n];",
            json!([2, 2]),
        ),
        (
            "classes with private fields, statics, accessors and inheritance",
            "class A { #x = 1; static made = 0; constructor() { A.made++; } get x() { return this.#x; } set x(v) { this.#x = v; } }
             class B extends A { get x() { return super.x * 10; } set x(v) { super.x = v; } }
             const b = new B(); await hop(); b.x = 4; await hop(); return [b.x, A.made, b instanceof A];",
            json!([40, 1, true]),
        ),
        (
            "Map and Set, in order, with keys by identity",
            "const k = { a: 1 }; const m = new Map([[k, 'object'], ['t', 2], [NaN, 3]]); const s = new Set([3, 1, 2]);
             await hop(); m.set(k, m.get(k) + '!'); s.delete(1); await hop(); return [m.get(k), m.get(NaN), [...s], m.size];",
            json!(["object!", 3, [3, 2], 3]),
        ),
        (
            "WeakMap and WeakSet",
            "const k = {}; const w = new WeakMap([[k, 5]]); const s = new WeakSet([k]); await hop(); return [w.get(k), s.has(k), s.has({})];",
            json!([5, true, false]),
        ),
        (
            "typed arrays that share a buffer, and a DataView",
            "const a = new Uint8Array([1, 2, 3, 4]); const w = new Uint16Array(a.buffer, 2, 1); const v = new DataView(a.buffer);
             await hop(); a[2] = 9; await hop(); return [w[0], v.getUint32(0), a.length, new Float64Array([0.5])[0]];",
            json!([0x0409, 0x0102_0904, 4, 0.5]),
        ),
        (
            "BigInt beyond 64 bits",
            "let n = 2n ** 100n; await hop(); n += 1n; await hop(); return n.toString();",
            json!("1267650600228229401496703205377"),
        ),
        (
            "Symbols, registered and not, as keys",
            "const s = Symbol('mine'), r = Symbol.for('shared'); const o = { [s]: 1, [r]: 2 }; await hop();
             return [o[s], o[Symbol.for('shared')], s.description, Object.getOwnPropertySymbols(o).length];",
            json!([1, 2, "mine", 2]),
        ),
        (
            "a generator paused in a loop and a try",
            "function* g() { try { for (let i = 0; i < 5; i++) yield i * i; } finally { ended = true; } } let ended = false;
             const it = g(); it.next(); await hop(); const second = it.next().value; await hop(); const third = it.next().value; it.return();
             return [second, third, ended];",
            json!([1, 4, true]),
        ),
        (
            "an async generator that awaits calls",
            "async function* g() { for (let i = 0; i < 3; i++) yield await call('w/inc', i); } const seen = []; for await (const n of g()) { seen.push(n); await hop(); } return seen;",
            json!([1, 2, 3]),
        ),
        (
            "promises pending, settled and chained",
            "let open; const p = new Promise((resolve) => (open = resolve)).then((v) => v + 1); const q = Promise.resolve(7); const r = Promise.reject(new Error('r')); r.catch(() => {});
             await hop(); open(1); await hop(); return [await p, await q, await r.catch((e) => e.message)];",
            json!([2, 7, "r"]),
        ),
        (
            "a call started before and awaited after others",
            "const early = call('w/inc', 10); await hop(); await hop(); return await early;",
            json!(11),
        ),
        (
            "several calls at once",
            "const [a, b] = await Promise.all([call('w/inc', 1), call('w/inc', 2)]); const first = await Promise.any([call('w/fail', 1), call('w/inc', 3)]); return [a, b, first];",
            json!([2, 3, 4]),
        ),
        (
            "an error with its stack",
            "let e; try { null.x; } catch (caught) { e = caught; } const before = e.stack; await hop(); return [e.name, e instanceof TypeError, e.stack === before && before.includes('test.js')];",
            json!(["TypeError", true, true]),
        ),
        (
            "an error's cause, and an AggregateError",
            "const e = new Error('out', { cause: new RangeError('in') }); const a = new AggregateError([e], 'many'); await hop(); return [e.cause.message, e.cause instanceof RangeError, a.errors[0] === e];",
            json!(["in", true, true]),
        ),
        (
            "one object by two names, and a cycle",
            "const shared = { n: 1 }; const o = { a: shared, b: shared }; o.self = o; await hop(); o.a.n = 5; await hop(); return [o.b.n, o.self.self === o, o.a === shared];",
            json!([5, true, true]),
        ),
        (
            "a RegExp in the middle of a text",
            "const r = /o(.)/g; const text = 'one of two oaks'; r.exec(text); await hop(); const second = r.exec(text); await hop(); return [second[1], r.lastIndex, /(?<y>\\d{4})/.exec('in 2026').groups.y];",
            json!(["f", 6, "2026"]),
        ),
        (
            "Proxy and Reflect",
            "const seen = []; const p = new Proxy({ a: 1 }, { get(t, k) { seen.push(String(k)); return Reflect.get(t, k); } }); await hop(); p.a; await hop(); p.b; return seen;",
            json!(["a", "b"]),
        ),
        (
            "Date, made and now",
            "const d = new Date(0); const before = Date.now(); await hop(); return [d.toISOString(), Date.now() === before, new Date().getTime() === before, before];",
            json!(["1970-01-01T00:00:00.000Z", true, true, 1_700_000_000_123_i64]),
        ),
        (
            "frozen, sealed and accessor properties",
            "'use strict'; const o = Object.freeze({ a: 1 }); const p = Object.defineProperty({}, 'x', { get: () => 9, enumerable: false }); await hop(); let refused = false; try { o.a = 2; } catch { refused = true; } return [refused, p.x, Object.keys(p).length];",
            json!([true, 9, 0]),
        ),
        (
            "iterators in the middle, destructuring, spread and labels",
            "const it = [1, 2, 3, 4][Symbol.iterator](); it.next(); await hop(); const rest = [...it]; let n = 0; outer: for (const a of rest) { for (const b of rest) { if (b > a) continue outer; n += await call('w/inc', b); } } return [rest, n];",
            json!([[2, 3, 4], 3 + 7 + 12]),
        ),
        (
            "a failed call, caught, with all that it carries",
            "try { await call('w/fail', { id: 7 }); } catch (e) { await hop(); return [e instanceof Error, e.name, e.message, e.params.id, e.path, e.fault]; }",
            json!([true, "NoSuchMail", "there is no such mail", 7, ["mtv", "cam"], "service"]),
        ),
        (
            "finally, after a throw across an await",
            "const seen = []; try { try { await hop(); throw new Error('x'); } finally { seen.push('finally'); await hop(); } } catch (e) { seen.push(e.message); } return seen;",
            json!(["finally", "x"]),
        ),
        (
            "a large reply held over further hops",
            "const rows = await call('w/rows', 200); await hop(); await hop(); return [rows.length, rows[199].name, rows.reduce((n, r) => n + r.id, 0)];",
            json!([200, "row 199", 19_900]),
        ),
        (
            "recursion through awaits",
            "const down = async (n) => (n === 0 ? 0 : (await call('w/inc', n)) + (await down(n - 1))); return await down(5);",
            json!(20),
        ),
        (
            "state of the module, and a getter on it",
            "count += 1; await hop(); count += 1; return [count, table.get('a')];",
            json!([2, 1]),
        ),
        (
            "byte strings and text beyond ASCII",
            "const b = new Uint8Array([0, 255]); const t = 'Grüße, 世界 🚢'; await hop(); return [await call('w/echo', t), (await call('w/echo', b)).length, [...t].length];",
            json!(["Grüße, 世界 🚢", 2, 11]),
        ),
    ]
}

fn source(body: &str) -> String {
    format!(
        "import {{ call, emit, log }} from 'catena';\nlet count = 0;\nconst table = new Map([['a', 1]]);\nconst hop = () => call('w/echo', null);\nexport default async function test(input) {{\n{body}\n}}\n"
    )
}

async fn shown(source: &str, way: Way) -> Shown {
    let [a, b] = &*NODES;
    let cold = |_| {
        let mut config = config();
        config.warm_instances_max = 0;
        sandbox(config)
    };
    let fresh;
    let nodes = match way {
        Way::Cold => {
            fresh = [0, 1].map(cold);
            [&fresh[0], &fresh[1]]
        }
        _ => [a, b],
    };
    let images = [&load_js(nodes[0], source).await.unwrap(), &load_js(nodes[1], source).await.unwrap()];
    assert_eq!(images[0].digest(), images[1].digest(), "one image on all nodes");
    run(nodes, images, &json!(null), way).await.unwrap()
}

#[tokio::test]
async fn everything_kept_across_an_await_survives_a_move() {
    for (what, body, expected) in programs() {
        let source = source(body);
        let mut in_place = shown(&source, Way::InPlace).await;
        let moved = shown(&source, Way::Moving).await;
        assert_eq!(in_place.end, Some(Ok(expected)), "{what}, in place");
        assert!(!moved.continuations.is_empty(), "{what} does not move");
        in_place.continuations.clone_from(&moved.continuations);
        assert_eq!(moved, in_place, "{what}, moved at every await");
    }
}

#[tokio::test]
async fn the_same_run_gives_the_same_continuations_on_warm_and_fresh_instances() {
    let source = source(
        "const seen = []; for (let i = 0; i < 4; i++) { seen.push(Math.random(), await call('w/inc', i)); log(`hop ${i}`); emit(i); } return [seen, Date.now()];",
    );
    let first = shown(&source, Way::Moving).await;
    assert_eq!(first.emits, [json!(0), json!(1), json!(2), json!(3)]);
    assert_eq!(first.logs.len(), 4);
    assert_eq!(shown(&source, Way::Moving).await, first, "warm");
    assert_eq!(shown(&source, Way::Cold).await, first, "fresh");
}

#[tokio::test]
async fn another_seed_gives_another_path() {
    let node = &NODES[0];
    let image = load_js(node, "export default async () => Math.random();").await.unwrap();
    let mut seen = Vec::new();
    for seed in [1, 2, 1] {
        let mut session = node.begin(&image).await.unwrap();
        let start = catena_guest::Start { seed, ..common::START };
        let turn = session.start(&common::value(&json!(null)), start).await;
        seen.push(turn.unwrap().end.unwrap().unwrap());
    }
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test]
async fn what_is_thrown_says_where() {
    let source = "import { call } from 'catena';\nexport default async function test() {\n  await call('w/echo', 1);\n  null.x;\n}\n";
    let shown = shown(source, Way::Moving).await;
    let exception = shown.end.unwrap().unwrap_err();
    assert_eq!(exception.name, "TypeError");
    assert_eq!(exception.line, 4, "{exception:?}");
    assert!(exception.stack.unwrap().contains("test.js:4"));
}

#[tokio::test]
async fn what_does_not_load_says_where_and_why() {
    for (source, name, line) in [
        ("export default async function f() {\n  let let = 1;\n}", "SyntaxError", 2),
        ("export default 5;", "", 0),
        ("export const f = 1;", "", 0),
        ("import x from 'fs';\nexport default async () => 1;", "", 0),
        ("\nthrow new RangeError('no');\nexport default async () => 1;", "RangeError", 2),
    ] {
        let exception = load_js(&NODES[0], source).await.unwrap_err();
        assert!(!exception.message.is_empty(), "{source}: {exception:?}");
        if !name.is_empty() {
            assert_eq!((exception.name.as_str(), exception.line), (name, line), "{exception:?}");
        }
    }
}
