//! What travels as a value, what it becomes on the way, and what does not travel.

use crate::host::{Guest, cbor, run};

/// The event that follows when a program returns `expression`.
fn returned(expression: &str) -> String {
    run(&format!("export default () => ({expression});"), "null", false)
}

/// `input` (CBOR) goes in, and comes out again as what the program says about it.
fn told(input: &[u8], expression: &str) -> String {
    let mut guest = Guest::with(&format!("export default (x) => ({expression});"));
    guest.start(input)[0].text.clone()
}

#[test]
fn values_go_out_as_the_contract_says() {
    let cases = [
        ("[undefined, null, true, false]", "[undefined, null, true, false]"),
        (
            "[0, -1, 1.5, -0, 2147483648, -9007199254740992, 1e300]",
            "[0, -1, 1.5e0, -0e0, 2147483648, -9007199254740992, 1e300]",
        ),
        ("[NaN, Infinity, -Infinity]", "[NaN, inf, -inf]"),
        ("'h\\u00e9 \\u{1f600}'", "\"hé 😀\""),
        ("['a\\ud800b']", "[\"a\u{fffd}b\"]"),
        ("({ a: 1, 'b c': [], __proto__: null })", "{\"a\": 1, \"b c\": []}"),
        (
            "[2n ** 53n + 1n, -(2n ** 63n), 2n ** 64n - 1n]",
            "[9007199254740993, -9223372036854775808, 18446744073709551615]",
        ),
        (
            "[5n, -5n, 0n, 2n ** 64n, -(2n ** 64n)]",
            "[2(h'05'), 3(h'04'), 2(h''), 2(h'01 00 00 00 00 00 00 00 00'), 3(h'ff ff ff ff ff ff ff ff')]",
        ),
        ("new Uint8Array([1, 2, 255])", "h'01 02 ff'"),
        ("new ArrayBuffer(2)", "h'00 00'"),
        ("new Uint8Array([1, 2, 3, 4]).subarray(1, 3)", "h'02 03'"),
        ("new Float32Array([1])", "85(h'00 00 80 3f')"),
        ("new Date(1500)", "1(1.5e0)"),
        ("new Date(86400000)", "1(86400)"),
        ("new Map([[1, 'a'], ['b', { c: 1 }]])", "{1: \"a\", \"b\": {\"c\": 1}}"),
        ("new Set([1, 'b'])", "258([1, \"b\"])"),
        ("[1, , 3]", "[1, undefined, 3]"),
        ("[new Number(1), new String('s'), new Boolean(false)]", "[1, \"s\", false]"),
        ("new (class Point { x = 1; #y = 2; get z() { return 3; } })()", "{\"x\": 1}"),
        ("new TypeError('no')", "{\"name\": \"TypeError\", \"message\": \"no\"}"),
        ("new Proxy({ a: 1 }, {})", "{\"a\": 1}"),
        ("({ get a() { return 1; } })", "{\"a\": 1}"),
        ("Object.create({ inherited: 1 }, { hidden: { value: 2 } })", "{}"),
    ];
    for (expression, expected) in cases {
        assert_eq!(returned(expression), format!("[1, {expected}]"), "{expression}");
    }
}

#[test]
fn values_come_in_as_the_contract_says() {
    let same = "typeof x === 'number' || typeof x === 'bigint' ? String(x) : JSON.stringify(x)";
    let cases: &[(&[u8], &str, &str)] = &[
        (&[0xfb, 0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18], same, "\"3.141592653589793\""),
        (&[0xf9, 0x3e, 0x00], same, "\"1.5\""),
        (&[0x1b, 0, 0x20, 0, 0, 0, 0, 0, 0], "[typeof x, String(x)]", "[\"number\", \"9007199254740992\"]"),
        (&[0x1b, 0, 0x20, 0, 0, 0, 0, 0, 1], "[typeof x, String(x)]", "[\"bigint\", \"9007199254740993\"]"),
        (
            &[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            "[typeof x, String(x)]",
            "[\"bigint\", \"-18446744073709551616\"]",
        ),
        (&[0xc2, 0x41, 0x05], "x === 5n", "true"),
        (&[0xc3, 0x41, 0x04], "x === -5n", "true"),
        (&[0xc3, 0x48, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "x === -(2n ** 64n)", "true"),
        (&[0xf7], "x === undefined", "true"),
        (&[0x43, 1, 2, 3], "[x instanceof Uint8Array, x.length, x[2]]", "[true, 3, 3]"),
        (&[0x5f, 0x41, 1, 0x42, 2, 3, 0xff], "[...x]", "[1, 2, 3]"),
        (&[0x7f, 0x61, b'a', 0x61, b'b', 0xff], "x", "\"ab\""),
        (&[0x9f, 1, 2, 0xff], "[Array.isArray(x), x.length]", "[true, 2]"),
        (&[0xbf, 0x61, b'a', 1, 0xff], "x.a", "1"),
        (&[0xa2, 0x61, b'a', 1, 2, 3], "[x instanceof Map, x.get('a'), x.get(2)]", "[true, 1, 3]"),
        (&[0xbf, 1, 0x61, b'a', 0xff], "[x instanceof Map, x.get(1)]", "[true, \"a\"]"),
        (&[0xc1, 0xfb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0], "[x instanceof Date, x.getTime()]", "[true, 1500]"),
        (&[0xd9, 1, 2, 0x82, 1, 1], "[x instanceof Set, x.size]", "[true, 1]"),
        (&[0xd8, 85, 0x44, 0, 0, 0x80, 0x3f], "[x instanceof Float32Array, x[0]]", "[true, 1]"),
        (&[0xd8, 32, 0x61, b'u'], "x", "\"u\""),
    ];
    for (input, expression, expected) in cases {
        assert_eq!(told(input, expression), format!("[1, {expected}]"), "{input:02x?} as {expression}");
    }
}

#[test]
fn a_key_named_proto_is_only_a_key() {
    let input = cbor(r#"{"__proto__": {"polluted": 1}}"#);
    assert_eq!(
        told(&input, "[({}).polluted, Object.keys(x), x.polluted]"),
        r#"[1, [undefined, ["__proto__"], undefined]]"#
    );
}

#[test]
fn values_are_nested_at_most_64_deep() {
    let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
    let mut guest = Guest::with("export default (x) => x;");
    assert!(guest.start(&cbor(&nested(64)))[0].text.starts_with("[1, [[[["));
    let mut guest = Guest::with("export default (x) => x;");
    let text = &guest.start(&cbor(&nested(65)))[0].text;
    assert!(text.contains("BadEvent"), "{text}");
    assert!(returned(&nested(65)).contains("is nested more than 64 deep"));
}

#[test]
fn what_does_not_travel_is_named_where_it_is_sent() {
    let cases = [
        ("{ items: [0, 1, 2, { fn() {} }] }", "params.items[3].fn is a function, and functions do not travel"),
        ("Symbol('s')", "params is a symbol, and symbols do not travel"),
        ("{ 'a b': { 1: () => 0 } }", "params[\"a b\"][\"1\"] is a function, and functions do not travel"),
        ("new Map([['k', [() => 0]]])", "params.get(\"k\")[0] is a function, and functions do not travel"),
        ("{ p: Promise.resolve(1) }", "params.p is a promise: await it first"),
        ("{ w: new WeakMap() }", "params.w is a WeakMap, and such an object does not travel as a value"),
        ("{ r: /x/ }", "params.r is a RegExp, and such an object does not travel as a value"),
        (
            "(() => { const a = { list: [] }; a.list.push(a); return a; })()",
            "params.list[0] holds itself, and a cycle does not travel as a value",
        ),
    ];
    for (expression, expected) in cases {
        let source = format!(
            "import {{ call }} from \"catena\";\nexport default async () => {{\n  try {{ await call(\"t/echo\", {expression}); }}\n  catch (e) {{ return [e instanceof TypeError, e.message]; }}\n}};"
        );
        let text = run(&source, "null", false);
        assert_eq!(text, format!("[1, [true, \"{expected}\"]]"), "{expression}");
    }
}

#[test]
fn a_result_that_does_not_travel_is_the_functions_fault() {
    let text = returned("{ ok: 1, f: () => 0 }");
    assert!(
        text.starts_with(
            r#"[2, {"name": "TypeError", "message": "the result.f is a function, and functions do not travel""#
        ),
        "{text}"
    );
}

#[test]
fn a_shared_object_travels_twice() {
    assert_eq!(returned("(() => { const o = { n: 1 }; return [o, o]; })()"), r#"[1, [{"n": 1}, {"n": 1}]]"#);
}

#[test]
fn a_getter_that_throws_throws_at_the_call() {
    let source = "import { call } from \"catena\";\nexport default async () => { try { await call('t/echo', { get a() { throw new RangeError('mine'); } }); } catch (e) { return e.message; } };";
    assert_eq!(run(source, "null", false), r#"[1, "mine"]"#);
}

#[test]
fn a_getter_cannot_call_while_its_object_is_sent() {
    let source = "import { call } from \"catena\";\nexport default async () => { try { await call('t/echo', { get a() { return call('t/echo', 1); } }); } catch (e) { return e.message; } };";
    assert_eq!(
        run(source, "null", false),
        r#"[1, "a getter cannot call, emit or log while its object is being sent"]"#
    );
}

/// 1128418370([h'07', 10, 20, "image/png"]): a blob, as a host gives it.
const BLOB: &[u8] = b"\xda\x43\x42\x4c\x42\x84\x41\x07\x0a\x14\x69image/png";

#[test]
fn a_blob_is_an_object_that_travels_as_what_it_was() {
    let cases = [
        ("x", "1128418370([h'07', 10, 20, \"image/png\"])"),
        (
            "[x.size, x.type, JSON.stringify(x).replaceAll('\"', '')]",
            "[20, \"image/png\", \"{size:20,type:image/png}\"]",
        ),
        ("({ held: [x.slice(5, 8)] })", "{\"held\": [1128418370([h'07', 15, 3, \"image/png\"])]}"),
        ("x.slice(5).slice(-4, -1)", "1128418370([h'07', 26, 3, \"image/png\"])"),
        ("[x.slice(9, 2).size, x.slice(-99, 99).size, x.slice(20).size, x.slice(NaN, '3').size]", "[0, 20, 0, 3]"),
        ("(() => { try { x.parts = []; } catch (why) { return [why.name, x.size]; } })()", "[\"TypeError\", 20]"),
        // What only looks like one is data.
        ("({ size: 1, type: '', parts: [] })", "{\"size\": 1, \"type\": \"\", \"parts\": []}"),
        ("new (class Blob { parts = [1]; })()", "{\"parts\": [1]}"),
    ];
    for (expression, expected) in cases {
        assert_eq!(told(BLOB, expression), format!("[1, {expected}]"), "{expression}");
    }
}

#[test]
fn reading_a_blob_is_a_call() {
    let mut guest = Guest::with("export default async (x) => [await x.slice(1, 3).bytes(), await x.text()];");
    let mine = "[0, 0, \"catena.blob\", \"bytes\", 1128418370([h'07', 11, 2, \"image/png\"])";
    let call = guest.start(BLOB).remove(0).text;
    assert!(call.starts_with(mine), "{call}");
    let call = guest.resume(0, true, &[0x42, 1, 2]).remove(0).text;
    assert!(call.starts_with("[0, 1, \"catena.blob\", \"text\", 1128418370([h'07', 10, 20,"), "{call}");
    assert_eq!(guest.resume(1, true, &cbor("\"ok\"")).remove(0).text, "[1, [h'01 02', \"ok\"]]");
    // Lies within the tag hurt whoever uses them, and nobody else.
    assert_eq!(told(b"\xda\x43\x42\x4c\x42\x05", "[x.size, x]"), "[1, [undefined, 1128418370(5)]]");
}
