//! A broken limit ends the function, says which and where, and no `catch` stops that.

use crate::host::{Guest, Rules, cbor};

/// On a thread whose stack is large enough for what the host allows a guest.
fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| {
        std::thread::Builder::new().stack_size(16 << 20).spawn_scoped(s, work).unwrap().join().unwrap()
    })
}

fn run(rules: Rules, output_bytes_max: u32, source: &str) -> String {
    deep(|| run_here(rules, output_bytes_max, source))
}

fn run_here(rules: Rules, output_bytes_max: u32, source: &str) -> String {
    let mut guest = Guest::new(rules);
    guest.output_bytes_max = output_bytes_max;
    let events = guest.load("test.js", source);
    assert_eq!(events[0].text, "[7]", "{events:?}");
    let texts: Vec<String> = guest.start(&cbor("null")).into_iter().map(|e| e.text).collect();
    texts.join(" ")
}

fn check(text: &str, limit: &str, line: u32) {
    assert!(text.contains(&format!("[5, \"{limit}\"")), "{text}");
    assert!(text.contains(&format!(", {line}, ")), "line {line}: {text}");
}

/// The engine knows where calls are. Stopped at the turn of a loop, it names the call that came before in the text, else
/// the function: which of them depends on the very instruction at which it was stopped.
fn check_near(text: &str, limit: &str, lines: [u32; 2]) {
    assert!(text.contains(&format!("[5, \"{limit}\"")), "{text}");
    assert!(lines.iter().any(|line| text.contains(&format!(", {line}, "))), "lines {lines:?}: {text}");
}

fn short(rules_polls: u32) -> Rules {
    Rules { polls_max: rules_polls, ..Rules::default() }
}

fn small() -> Rules {
    Rules { memory_bytes_max: 8 << 20, ..Rules::default() }
}

#[test]
fn a_loop_without_end() {
    let loops = [
        "for (let n = 0; ; n++) f(n);",
        "for (;;) { f(); try { for (;;) {} } catch {} finally { continue; } }",
        "while (true) await null;",
        "await Promise.all([1].map(async () => { for (;;) f(); }));",
        "const g = () => Promise.resolve().then(g); await g();",
        "[...(function* () { for (;;) yield 1; })()].length;",
        "'x'.replace(/x/, () => { for (;;) f(); });",
        "[3, 2, 1].sort(() => { for (;;) f(); });",
        "JSON.stringify({ toJSON() { for (;;) f(); } });",
        "new Promise(() => { for (;;) f(); });",
        "for await (const x of (async function* () { for (;;) yield 1; })()) {}",
        "({ get a() { for (;;) f(); } }).a;",
        "new Proxy({}, { get() { for (;;) f(); } }).x;",
    ];
    for body in loops {
        let text = run(short(3), 1 << 20, &format!("export default async () => {{\n  {body}\n}}; const f = (x) => x;"));
        check_near(&text, "step_wall_ms_max", [1, 2]);
    }
}

#[test]
fn a_loop_without_any_call_is_found_by_what_came_before() {
    let text = run(short(3), 1 << 20, "const f = (x) => x;\nexport default async () => {\n  f(1);\n  for (;;) {}\n};");
    check(&text, "step_wall_ms_max", 3);
}

#[test]
fn promises_that_turn_round_without_end_are_known_by_their_function() {
    // The poll comes between two turns, where nothing of the program is on the stack.
    for polls in 1..6 {
        let text =
            run(short(polls), 1 << 20, "const before = 1;\nexport default async () => {\n  for (;;) await null;\n};");
        assert!(
            text.contains("[5, \"step_wall_ms_max\"") && (text.contains(", 2, ") || text.contains(", 3, ")),
            "{text}"
        );
    }
}

#[test]
fn a_loop_without_end_in_a_getter_that_is_sent() {
    let text = run(
        short(3),
        1 << 20,
        "import { call } from \"catena\";\nexport default async () => {\n  await call('a/b', { get a() { for (;;) {} } });\n};",
    );
    check(&text, "step_wall_ms_max", 3);
}

#[test]
fn a_regular_expression_without_end() {
    let text =
        run(short(3), 1 << 20, "export default async () => {\n  return /^(a+)+$/.test('a'.repeat(40) + 'b');\n};");
    check(&text, "step_wall_ms_max", 2);
}

#[test]
fn a_loop_without_end_at_the_top_level() {
    let text = &Guest::new(short(3)).load("test.js", "const f = (x) => x;\nfor (;;) f(1);\nexport default f;")[0].text;
    assert!(text.starts_with("[2, {\"name\": \"LimitExceeded\""), "{text}");
    assert!(text.contains("step_wall_ms_max") && text.contains("test.js:"), "{text}");
}

#[test]
fn memory_without_end() {
    let bodies = [
        "const a = []; for (;;) a.push({ a: [1, 2, 3] });",
        "let s = 'x'; for (;;) s = s + s + 'y'.repeat(1000) + s.charCodeAt(s.length - 1);",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, 'k' + i);",
        "new Uint8Array(100 << 20);",
        "new Array(1 << 24).fill({}).map((x) => [x]);",
        "const a = []; for (;;) { try { for (;;) a.push([1, 2, 3, 4]); } catch {} }",
        "[1, 2, 3].map(() => new Array(1e6).fill(0).map((_, i) => ({ i })));",
    ];
    for body in bodies {
        let text = run(small(), 1 << 20, &format!("export default async () => {{\n  {body}\n}};"));
        check(&text, "memory_bytes_max", 2);
    }
}

#[test]
fn memory_is_refused_for_good() {
    let source = "import { emit } from \"catena\";\nexport default async () => {\n  try { new Uint8Array(100 << 20); } catch {}\n  emit('went on');\n  return 'went on';\n};";
    let text = run(small(), 1 << 20, source);
    assert!(text.contains("memory_bytes_max") && !text.contains("went on"), "{text}");
}

#[test]
fn a_recursion_without_end() {
    let bodies = [
        "const f = (n) => f(n + 1) + 1; return f(0);",
        "const f = () => { [1].forEach(f); }; f();",
        "const o = { toString() { return String(o); } }; return String(o);",
        "const o = { get a() { return this.a; } }; return o.a;",
        "let a = []; for (let i = 0; i < 100000; i++) a = [a]; return JSON.stringify(a);",
    ];
    for body in bodies {
        let text = run(Rules::default(), 1 << 20, &format!("export default async () => {{\n  {body}\n}};"));
        check(&text, "stack_bytes_max", 2);
    }
}

#[test]
fn an_async_recursion_without_end() {
    let text = run(
        Rules::default(),
        1 << 20,
        "async function f(n) {\n  return await f(n + 1);\n}\nexport default () => f(0);",
    );
    check(&text, "stack_bytes_max", 2);
}

#[test]
fn a_deep_recursion_can_be_caught() {
    let text = run(
        Rules::default(),
        1 << 20,
        "const f = (n) => f(n + 1) + 1;\nexport default async () => { try { f(0); } catch (e) { return [e.name, e.message]; } };",
    );
    assert_eq!(text, r#"[1, ["RangeError", "Maximum call stack size exceeded"]]"#);
}

#[test]
fn source_that_is_nested_without_end() {
    for source in [
        format!("export default () => {}1{};", "(".repeat(100_000), ")".repeat(100_000)),
        format!("export default {}1{};", "[".repeat(100_000), "]".repeat(100_000)),
        format!("export default () => {}1;", "!".repeat(100_000)),
        format!("export default /{}a{}/;", "(".repeat(50_000), ")".repeat(50_000)),
    ] {
        let text = deep(|| Guest::new(Rules::default()).load("test.js", &source)[0].text.clone());
        assert!(text.starts_with("[2, "), "{text}");
    }
}

#[test]
fn output_without_end() {
    let head = "import { call, emit, log } from \"catena\";\nexport default async () => {\n  ";
    for body in [
        "for (;;) emit('x'.repeat(100));",
        "for (;;) { try { for (;;) log('x'.repeat(100)); } catch {} }",
        "call('a/b', 'x'.repeat(100000));",
        "for (;;) call('a/b', 1);",
    ] {
        let text = run(Rules::default(), 10_000, &format!("{head}{body}\n}};"));
        check(&text, "output_bytes_max", 3);
        assert!(text.len() < 40_000);
    }
    let text = run(Rules::default(), 10_000, "export default () => 'x'.repeat(100000);");
    assert!(text.starts_with("[5, \"output_bytes_max\""), "{text}");
    let text = run(Rules::default(), 10_000, "export default () => { throw 'x'.repeat(100000); };");
    assert!(text.starts_with("[5, \"output_bytes_max\""), "{text}");
}

#[test]
fn events_before_a_broken_limit_are_told() {
    let text = run(
        short(3),
        1 << 20,
        "import { emit } from \"catena\";\nexport default async () => {\n  emit(1);\n  for (;;) Math.abs(1);\n};",
    );
    assert!(text.starts_with("[3, 1] [5, "), "{text}");
    check_near(&text, "step_wall_ms_max", [3, 4]);
}

#[test]
fn large_events_in_and_out_are_given_back() {
    let mut guest = Guest::with(
        "import { call } from \"catena\";\nexport default async (x) => { let n = x.length; for (;;) n = (await call('t/echo', 'y'.repeat(n))).length; };",
    );
    guest.output_bytes_max = 16 << 20;
    let large = cbor(&format!("\"{}\"", "x".repeat(1_000_000)));
    assert!(guest.start(&large)[0].text.len() > 1_000_000);
    let mut sizes = Vec::new();
    for i in 0..6 {
        assert!(guest.resume(i, true, &large)[0].text.len() > 1_000_000);
        let memory = guest.memory();
        sizes.push(memory.len());
        // Nothing of the megabytes is left: they would travel.
        assert!(memory.iter().filter(|b| **b == b'y').count() < 10_000);
    }
    assert!(sizes[5] == sizes[2], "{sizes:?}");
}
