//! Everything a program may keep across an `await` survives the move.

use crate::host::run;

/// Runs it with and without moves: both must end with this result.
fn check(source: &str, result: &str) {
    let source =
        format!("import {{ call, emit, log }} from \"catena\";\nconst echo = (x) => call(\"t/echo\", x);\n{source}");
    let stays = run(&source, "null", false);
    assert_eq!(stays, format!("[1, {result}]"), "without a move");
    assert_eq!(run(&source, "null", true), stays, "moved at every await");
}

macro_rules! survives {
    ($($story:ident: $source:literal => $result:literal;)*) => {$(
        #[test]
        fn $story() {
            check($source, $result);
        }
    )*};
}

survives! {
    closures: "export default async () => { let n = 1; const up = () => ++n; await echo(0); up(); await echo(0); return up(); }" => "3";

    classes_with_private_fields: "
        class Account { #sum = 0; static made = 0; constructor() { Account.made++; } add(n) { this.#sum += n; return this; } get sum() { return this.#sum; } }
        class Named extends Account { name = 'n'; }
        export default async () => { const a = new Named().add(1); await echo(0); a.add(41); await echo(0);
            return [a.sum, a instanceof Account, Account.made, a.name, a.constructor.name]; }" => r#"[42, true, 1, "n", "Named"]"#;

    module_state: "
        let count = 0; const seen = [];
        export default async () => { seen.push(++count); await echo(0); seen.push(++count); return seen; }" => "[1, 2]";

    map_and_set: "
        export default async () => { const key = {}; const m = new Map([[key, 1], ['b', 2]]); const s = new Set([key, NaN]);
            await echo(0); m.set('c', m.get(key) + 2); s.add(NaN);
            return [m.get(key), [...m.values()], s.has(key), s.size]; }" => "[1, [1, 2, 3], true, 2]";

    weak_map_weak_set_and_weak_ref: "
        export default async () => { const key = {}; const m = new WeakMap([[key, 'held']]); const s = new WeakSet([key]); const r = new WeakRef(key);
            await echo(0); return [m.get(key), m.has({}), s.has(key), r.deref() === key]; }" => r#"["held", false, true, true]"#;

    typed_arrays_over_one_buffer: "
        export default async () => { const b = new ArrayBuffer(16); const u = new Uint8Array(b); const f = new Float64Array(b, 8); const v = new DataView(b);
            f[0] = 1.5; await echo(0); u[0] = 7; await echo(0);
            return [v.getUint8(0), f[0], u.length, f.buffer === u.buffer]; }" => "[7, 1.5e0, 16, true]";

    resizable_array_buffer: "
        export default async () => { const b = new ArrayBuffer(4, { maxByteLength: 64 }); const u = new Uint8Array(b); await echo(0); b.resize(32); await echo(0); u[31] = 1;
            return [b.byteLength, u.length, u[31]]; }" => "[32, 32, 1]";

    big_int: "export default async () => { let n = 2n ** 100n; await echo(0); n += 1n; await echo(0); return String(n); }" => r#""1267650600228229401496703205377""#;

    symbol: "
        const mine = Symbol('mine');
        export default async () => { const local = Symbol('local'); const o = { [mine]: 1, [local]: 2, [Symbol.for('shared')]: 3 };
            await echo(0); return [o[mine], o[local], o[Symbol.for('shared')], local.description]; }" => r#"[1, 2, 3, "local"]"#;

    generator: "
        function* count() { let n = 0; try { for (;;) n += (yield n) ?? 1; } finally { n = -1; } }
        export default async () => { const g = count(); g.next(); g.next(); await echo(0); const a = g.next(10).value; await echo(0); const b = g.return('end');
            return [a, b.value, b.done]; }" => r#"[11, "end", true]"#;

    async_generator: "
        async function* pages() { for (let i = 0; i < 3; i++) yield await echo(i); }
        export default async () => { const all = []; for await (const p of pages()) { await echo(0); all.push(p); } return all; }" => "[0, 1, 2]";

    pending_promises: "
        export default async () => { let open; const later = new Promise((resolve) => { open = resolve; }); const told = []; later.then((x) => told.push(x));
            const one = call('t/echo', 1), two = call('t/echo', 2); await echo(0); open('open'); const both = await Promise.all([two, one]);
            return [both, told, await later]; }" => r#"[[2, 1], ["open"], "open"]"#;

    promise_any_with_a_failure: "
        export default async () => Promise.any([call('t/fail', { name: 'No', message: 'no' }), echo('yes')])" => r#""yes""#;

    an_async_function_that_is_half_way: "
        async function part(n) { const a = await echo(n); const b = await echo(a + 1); return a * b; }
        export default async () => { const p = part(3); const q = part(4); await echo(0); return [await p, await q]; }" => "[12, 20]";

    errors_with_their_stack: "
        function boom() { return new TypeError('boom'); }
        export default async () => { const e = boom(); const before = e.stack; await echo(0);
            return [e instanceof TypeError, e.message, e.stack === before, /at boom \\(test.js:4:/.test(e.stack)]; }" => r#"[true, "boom", true, true]"#;

    try_catch_finally_around_an_await: "
        export default async () => { const told = []; try { await call('t/fail', { name: 'NotFound', message: 'no mail', params: { id: 7 } }); }
            catch (e) { told.push(e.name, e.message, e.params.id, e instanceof Error); await echo(0); } finally { await echo(0); told.push('finally'); } return told; }"
        => r#"["NotFound", "no mail", 7, true, "finally"]"#;

    objects_shared_by_two_names: "
        export default async () => { const o = { n: 1 }; const a = [o, o]; const m = new Map([['o', o]]); await echo(0); a[0].n++; return [o.n, a[1].n, m.get('o') === a[1]]; }"
        => "[2, 2, true]";

    cycles: "
        export default async () => { const a = { name: 'a' }; const b = { name: 'b', a }; a.b = b; a.self = a; await echo(0); return [a.b.a.self === a, b.a.b.name]; }" => r#"[true, "b"]"#;

    regular_expressions: "
        export default async () => { const r = /(?<word>\\w+)-(\\d)/gu; const text = 'a-1 bé-2 c-3'; const first = r.exec(text); await echo(0); const next = r.exec(text);
            return [first.groups.word, r.lastIndex, next[2], r.source, r.flags, 'x'.replace(/x/, 'y')]; }" => r#"["a", 12, "3", "(?<word>\w+)-(\d)", "gu", "y"]"#;

    proxy: "
        export default async () => { const log = []; const p = new Proxy({ a: 1 }, { get(t, k) { log.push(String(k)); return t[k]; } }); p.a; await echo(0); p.a; return log; }" => r#"["a", "a"]"#;

    date: "export default async () => { const d = new Date(86400000); const now = Date.now(); await echo(0); d.setDate(3); return [d.toISOString(), Date.now() === now, new Date().getTime() === now]; }"
        => r#"["1970-01-03T00:00:00.000Z", true, true]"#;

    getters_setters_and_frozen_objects: "
        export default async () => { const o = { n: 0, get twice() { return this.n * 2; }, set both(v) { this.n = v; } }; const f = Object.freeze({ a: 1 }); await echo(0); o.both = 21;
            let refused = false; try { f.a = 2; } catch { refused = true; } return [o.twice, refused, Object.isFrozen(f)]; }" => "[42, true, true]";

    iterators_half_way: "
        export default async () => { const it = [1, 2, 3].values(); it.next(); const m = new Map([[1, 'a'], [2, 'b']]).entries(); m.next(); const s = 'xyz'[Symbol.iterator](); s.next();
            await echo(0); return [it.next().value, m.next().value, s.next().value]; }" => r#"[2, [2, "b"], "y"]"#;

    destructuring_and_loops_around_awaits: "
        export default async () => { let sum = 0; for (const { n, ...rest } of [{ n: 1, a: 2 }, { n: 3, b: 4 }]) { await echo(0); sum += n + Object.values(rest)[0]; }
            outer: for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) { if (j === 1) continue outer; await echo(0); sum += i; } return sum; }" => "13";

    long_strings_and_ropes: "
        export default async () => { let s = ''; for (let i = 0; i < 2000; i++) s += 'ab' + i; await echo(0); s += 'é€😀'; await echo(0); return [s.length, s.slice(-4), s.indexOf('ab1999')]; }"
        => r#"[10894, "é€😀", 10884]"#;

    bound_functions_and_tagged_templates: "
        const tag = (strings, ...values) => strings.raw.join('|') + values.join(',');
        export default async () => { const add = ((a, b) => a + b).bind(null, 40); await echo(0); return [add(2), tag`a${1}b${2}c`]; }" => r#"[42, "a|b|c1,2"]"#;

    code_made_at_run_time: "export default async () => { const f = new Function('a', 'return a * 2'); await echo(0); return f(21) + (0, eval)('1'); }" => "43";

    finalization_registry_and_collection: "
        export default async () => { const r = new FinalizationRegistry(() => {}); for (let i = 0; i < 10; i++) { const o = {}; o.o = o; r.register(o, i); } await echo(0); return 'ok'; }" => r#""ok""#;

    much_memory: "
        export default async () => { const rows = Array.from({ length: 20000 }, (_, i) => ({ i, s: 'row ' + i })); await echo(0); rows.reverse(); await echo(0); return [rows[0].i, rows.at(-1).s]; }" => r#"[19999, "row 0"]"#;
}
