//! What goes wrong says what, where and whose fault it is.

use crate::host::{Guest, Rules, cbor, run};

fn load(source: &str) -> String {
    Guest::new(Rules::default()).load("mail.js", source)[0].text.clone()
}

#[test]
fn a_module_that_cannot_be_taken_in_says_where() {
    let cases = [
        ("export default async function f() {\n  let x = ;\n}", "SyntaxError", "unexpected token", 2, 11),
        ("export default 1 +", "SyntaxError", "", 1, 19),
        ("let a;\nlet a;\nexport default () => a;", "SyntaxError", "redefinition", 2, 6),
        (
            "import fs from \"fs\";\nexport default () => fs;",
            "SyntaxError",
            "cannot import \"fs\": a function may import only \"catena\"",
            1,
            16,
        ),
        (
            "import { call } from \"catena\";\nimport x from './x.js';\nexport default () => x;",
            "SyntaxError",
            "cannot import \"./x.js\"",
            2,
            15,
        ),
        ("import { hop } from \"catena\";\nexport default () => hop();", "SyntaxError", "'hop'", 0, 0),
        ("export const f = () => 1;", "TypeError", "no default export that is a function", 0, 0),
        ("export default 42;", "TypeError", "no default export that is a function", 0, 0),
        ("const f = () => { throw new RangeError('early'); };\nf();\nexport default f;", "RangeError", "early", 1, 0),
        (
            "import { call } from \"catena\";\nawait call(\"a/b\", 1);\nexport default () => 1;",
            "Error",
            "call() has no chain at the top level",
            2,
            0,
        ),
        (
            "import { log } from \"catena\";\nlog(1);\nexport default () => 1;",
            "Error",
            "log() has no chain at the top level",
            2,
            0,
        ),
        ("await new Promise(() => {});\nexport default () => 1;", "Error", "awaits something that never comes", 0, 0),
        ("const t = Date.now();\nexport default () => t;", "Error", "reads the time or Math.random", 0, 0),
        ("const t = Math.random();\nexport default () => t;", "Error", "reads the time or Math.random", 0, 0),
        ("await Promise.reject(new TypeError('later'));\nexport default () => 1;", "TypeError", "later", 1, 0),
    ];
    for (source, name, message, line, column) in cases {
        let text = load(source);
        assert!(text.starts_with(&format!("[2, {{\"name\": \"{name}\"")), "{source}\n{text}");
        assert!(text.replace("\\\"", "\"").contains(message), "{source}\n{text}");
        assert!(text.contains(&format!("\"line\": {line}, ")), "line {line} of {source}\n{text}");
        assert!(
            column == 0 || text.contains(&format!("\"column\": {column}, ")),
            "column {column} of {source}\n{text}"
        );
        assert!(text.contains("\"fault\": \"guest\""), "{text}");
    }
}

#[test]
fn a_module_may_prepare_itself_at_its_top_level() {
    let source = "const table = new Map([[1, 'one']]); const d = new Date(2020, 0, 1); await Promise.resolve();\nexport default (x) => [table.get(x), d.getUTCFullYear()];";
    assert_eq!(run(source, "1", true), r#"[1, ["one", 2020]]"#);
}

#[test]
fn an_uncaught_error_has_its_name_place_and_stack() {
    let source = "class NoSuchMail extends Error { name = 'NoSuchMail'; params = { id: 7 }; }\nfunction find() {\n  throw new NoSuchMail('gone');\n}\nexport default async function openMail() {\n  find();\n}";
    let text = run(source, "null", false);
    let expected = "[2, {\"name\": \"NoSuchMail\", \"message\": \"gone\", \"params\": {\"id\": 7}, \"stack\": \"    at find (test.js:3:13)\n    at openMail (test.js:6:3)\", \"line\": 3, \"column\": 13}]";
    assert_eq!(text, expected);
}

#[test]
fn a_failed_call_shows_the_await() {
    let source = "import { call } from \"catena\";\nexport default async function openMail() {\n  const a = 1;\n  await call(\"t/fail\", { name: 'NotFound', message: 'm', params: [1], path: ['red', 'bei'], step: 2, target: 't/fail', fault: 'service', stack: '    at inner (other.js:1:2)' });\n}";
    let expected = r#"[2, {"name": "NotFound", "message": "m", "params": [1], "path": ["red", "bei"], "step": 2, "target": "t/fail", "fault": "service", "stack": "    at inner (other.js:1:2)
    at openMail (test.js:4:9)", "line": 4, "column": 9}]"#;
    for moves in [false, true] {
        assert_eq!(run(source, "null", moves), expected);
    }
}

#[test]
fn a_thrown_value_that_is_no_error_is_told_all_the_same() {
    let cases = [
        ("'text'", r#"[2, {"name": "Error", "message": "text", "params": "text"}]"#),
        ("undefined", r#"[2, {"name": "Error", "message": "undefined"}]"#),
        ("null", r#"[2, {"name": "Error", "message": "null", "params": null}]"#),
        ("{ code: 7 }", r#"[2, {"name": "Error", "message": "[object Object]", "params": {"code": 7}}]"#),
        ("(() => 0)", "[2, {\"name\": \"Error\", \"message\": \"function () {\n    [native code]\n}\"}]"),
        ("Symbol('x')", r#"[2, {"name": "Error", "message": "a value that has no text"}]"#),
        ("{ toString() { throw 1; } }", r#"[2, {"name": "Error", "message": "a value that has no text"}]"#),
    ];
    for (thrown, expected) in cases {
        let text = run(&format!("export default async () => {{ throw {thrown}; }};"), "null", false);
        assert_eq!(text, expected, "{thrown}");
    }
}

#[test]
fn where_a_call_failed_shows_to_the_program_and_stays_with_the_error() {
    let failure =
        "{ name: 'NotFound', message: 'm', path: ['red', 'bei'], step: 2, target: 't/fail', fault: 'service' }";
    let source = |handler: &str| {
        format!(
            "import {{ call }} from \"catena\";\nexport default async () => {{\n  try {{ await call('t/fail', {failure}); }} catch (error) {{ {handler} }}\n}};"
        )
    };
    let cases = [
        (
            "return [error.target, error.step, error.path, error.fault];",
            r#"[1, ["t/fail", 2, ["red", "bei"], "service"]]"#,
        ),
        (
            "await null; error.message += 'ore'; throw error;",
            r#""more", "path": ["red", "bei"], "step": 2, "target": "t/fail", "fault": "service""#,
        ),
        ("throw new TypeError('own', { cause: error });", r#"[2, {"name": "TypeError", "message": "own", "stack": "#),
    ];
    for (handler, expected) in cases {
        for moves in [false, true] {
            let text = run(&source(handler), "null", moves);
            assert!(text.contains(expected), "{handler}: {text}");
        }
    }
}

#[test]
fn an_error_may_use_the_names_of_the_place_for_anything_else() {
    let cases = [
        "path: '/tmp/x', step: 'first', target: {}, fault: 7",
        "path: ['a', 7], step: -1, target: ['a'], fault: null",
        "path: [], step: 1.5, target: 1n, fault: Symbol()",
        "path: new Array(300).fill('a'), step: NaN, target: null, fault: false",
        "path: new Proxy([], { get() { throw 1; } })",
        "get path() { throw 1; }, get step() { throw 2; }, get target() { throw 3; }, get fault() { throw 4; }",
    ];
    for own in cases {
        let source = format!(
            "export default async () => {{ const e = new Error('m'); Object.defineProperties(e, Object.getOwnPropertyDescriptors({{ {own} }})); throw e; }};"
        );
        let text = run(&source, "null", false);
        assert!(text.starts_with(r#"[2, {"name": "Error", "message": "m", "stack": "#), "{own}: {text}");
    }
}

#[test]
fn a_hostile_error_is_told_as_far_as_it_lets_itself() {
    let source = "export default async () => { const e = new Error('m'); Object.defineProperty(e, 'name', { get() { throw 1; } }); Object.defineProperty(e, 'params', { get() { throw 2; } }); throw e; };";
    let text = run(source, "null", false);
    assert!(text.starts_with(r#"[2, {"name": "Error", "message": "m", "stack":"#), "{text}");
}

#[test]
fn a_bad_target_says_what_a_target_is() {
    for target in ["'nowhere'", "'/f'", "'s/'", "''", "7", "undefined", "{}"] {
        let source =
            format!("import {{ call }} from \"catena\";\nexport default async () => {{ await call({target}, 1); }};");
        let text = run(&source, "null", false);
        assert!(text.contains("\"TypeError\"") && text.contains("the target must be"), "{target}: {text}");
        assert!(text.contains("\"line\": 2"), "{text}");
    }
}

#[test]
fn a_service_name_may_hold_slashes_and_dots() {
    let mut guest =
        Guest::with("import { call } from \"catena\";\nexport default async () => { await call(\"a.b/c/d\"); };");
    assert!(guest.start(&cbor("null"))[0].text.starts_with("[0, 0, \"a.b/c\", \"d\", undefined, 2, "));
}

#[test]
fn a_split_says_what_it_takes() {
    for arguments in ["", "[]", "1", "[1]", "[() => 1, null]", "[() => 1], { at: 7 }"] {
        let source =
            format!("import {{ split }} from \"catena\";\nexport default async () => {{ split({arguments}); }};");
        let text = run(&source, "null", false);
        assert!(text.starts_with("[2, {\"name\": \"TypeError\""), "{arguments}: {text}");
        assert!(text.contains("\"line\": 2"), "{arguments}: {text}");
    }
}

#[test]
fn a_split_is_told_with_its_count_and_merge_host() {
    let mut guest = Guest::with(
        "import { split } from \"catena\";\nexport default async () => split([() => 1, () => 2], { at: \"a.b\" });",
    );
    assert!(guest.start(&cbor("null"))[0].text.starts_with("[8, 0, 2, \"a.b\", 2, "));
}

#[test]
fn the_host_hears_of_its_own_mistakes() {
    let cases: [(&str, &[u8]); 4] = [
        ("catena_start", &[0x84, 0xff]),
        ("catena_start", &[]),
        ("catena_start", &[0x84, 0x5a, 0xff, 0xff, 0xff, 0xff]),
        ("catena_start", &[0x84, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ];
    for (export, event) in cases {
        let mut guest = Guest::with("export default () => 1;");
        let outbox = guest.quick(export, event);
        let text = minicbor::display(&outbox).to_string();
        assert!(
            text.starts_with("[[2, {\"name\": \"BadEvent\"") && text.contains("\"fault\": \"node\""),
            "{event:02x?}: {text}"
        );
    }
    let mut guest = Guest::new(Rules::default());
    assert!(guest.start(&cbor("1"))[0].text.contains("BadState"));
    let mut guest = Guest::with(
        "import { call } from \"catena\";\nexport default async () => { await call('t/echo'); await call('t/echo'); };",
    );
    guest.start(&cbor("1"));
    guest.resume(0, true, &cbor("1"));
    assert!(guest.resume(0, true, &cbor("1"))[0].text.contains("has settled before"));
}

#[test]
fn log_and_emit_keep_their_order() {
    let source = "import { call, emit, log } from \"catena\";\nexport default async () => { log('a', 1, { b: [2] }, undefined, 3n); emit({ part: 1 }); await call('t/echo'); log(new TypeError('x')); const c = {}; c.c = c; log(c); };";
    let expected = r#"[4, "a 1 {"b":[2]} undefined 3"] [3, {"part": 1}] [4, "TypeError: x"] [4, "[object Object]"] [1, undefined]"#;
    assert_eq!(run(source, "null", true), expected);
}

#[test]
fn a_function_that_waits_for_nothing_just_says_nothing() {
    assert_eq!(run("export default () => new Promise(() => {});", "null", false), "");
}

#[test]
fn a_thenable_result_is_awaited() {
    assert_eq!(run("export default () => ({ then(resolve) { resolve(7); } });", "null", false), "[1, 7]");
}
