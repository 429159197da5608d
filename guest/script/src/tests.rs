//! Sources and what becomes of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use crate::{ErrorKind, SOURCE_BYTES_MAX, ScriptError, confined, prepare, prepare_bytes};

/// What is expected of a source.
enum Expect {
    /// Accepted; the JavaScript is this.
    Source(&'static str),
    /// Accepted; these calls are found, as `line:column target`.
    Calls(&'static [&'static str]),
    /// Refused: the kind, the place as `line:column` (empty for the file as a whole), and a part of the printed error.
    Refused(ErrorKind, &'static str, &'static str),
}
use ErrorKind::{
    DefaultExport, DynamicImport, FileName, Import, Internal, NotOnlyTypes, NotUtf8, Syntax, TooComplex, TooLong,
};
use Expect::{Calls, Refused, Source};

fn check(name: &str, source: &str, expect: &Expect) {
    let story = format!("{name}: {}", source.chars().take(200).collect::<String>());
    match (prepare(name, source), expect) {
        (Ok(script), Source(expected)) => assert_eq!(script.source, *expected, "{story}"),
        (Ok(script), Calls(expected)) => {
            let found = script.calls.iter().map(|call| format!("{}:{} {}", call.line, call.column, call.target));
            assert_eq!(found.collect::<Vec<_>>(), *expected, "{story}");
        }
        (Err(error), Refused(kind, place, part)) => check_refusal(&error, *kind, place, part, &story),
        (Ok(script), Refused(..)) => panic!("{story}: should be refused, became {script:?}"),
        (Err(error), _) => panic!("{story}: should be accepted, but\n{error}"),
    }
}

fn check_refusal(error: &ScriptError, kind: ErrorKind, place: &str, part: &str, story: &str) {
    let found = error.spot.as_ref().map_or(String::new(), |place| format!("{}:{}", place.line, place.column));
    assert_eq!((error.kind, found.as_str()), (kind, place), "{story}:\n{error}");
    let printed = error.to_string();
    assert!(printed.contains(part), "{story}: {part:?} is not in\n{printed}");
    assert!(printed.contains("\nhelp: "), "{story}: says nothing of what to do:\n{printed}");
    assert_eq!(error.spot.is_some(), printed.contains("^\nhelp: "), "{story}: a caret for a place:\n{printed}");
}

fn check_all(table: &[(&str, &str, Expect)]) {
    for (name, source, expect) in table {
        check(name, source, expect);
    }
}

#[test]
fn types_are_blanked_and_nothing_moves() {
    check_all(&[
        ("f.js", "export default (x) => x // kept", Source("export default (x) => x // kept")),
        ("f.mjs", "export default\r\nx => x", Source("export default\r\nx => x")),
        ("f.ts", "export default (x: number) => x", Source("export default (x        ) => x")),
        ("f.mts", "let x!: string;\nexport default f;", Source("let x         ;\nexport default f;")),
        ("f.ts", "type A = 'ä€';\nexport default f", Source(";             \nexport default f")),
        ("f.ts", "export default f<string>;\n", Source("export default f        ;\n")),
        (
            "f.ts",
            "interface A { b: string }\nexport default f as A",
            Source(";                        \nexport default f     "),
        ),
        ("f.ts", "\u{feff}export default f!", Source("export default f ")),
        (
            "f.ts",
            "import type { A } from './a';\nexport default f",
            Source(";                            \nexport default f"),
        ),
        ("f.ts", "export default f satisfies\n  A;\n", Source("export default f          \n   ;\n")),
        (
            "f.ts",
            "export default f; declare enum A {}; namespace B { type C = 1 }",
            Source("export default f;                  ;                           "),
        ),
        (
            "f.ts",
            "export default function f(a: string): void;\nexport default function f(a: any) {}",
            Source(";                                          \nexport default function f(a     ) {}"),
        ),
    ]);
}

#[test]
fn calls_are_found_where_they_stand() {
    check_all(&[
        ("f.js", "import { call } from 'catena'\nexport default () => call('a/b')", Calls(&["2:22 a/b"])),
        ("f.js", "import { call } from 'catena'\nexport default x => call(x)", Calls(&["2:21 (computed)"])),
        (
            "f.js",
            "import { call } from 'catena'\nexport default x => call(`a/${x}`, call(`c/d`))",
            Calls(&["2:21 (computed)", "2:36 c/d"]),
        ),
        ("f.js", "import { call as rpc } from 'catena'\nexport default () => rpc('a/b', 1)", Calls(&["2:22 a/b"])),
        ("f.js", "import * as c from 'catena'\nexport default () => c.call('a/b') + c.log('c')", Calls(&["2:22 a/b"])),
        (
            "f.ts",
            "import { call } from 'catena'\nexport default (x: 'ä') => call('a/b' as const)",
            Calls(&["2:28 a/b"]),
        ),
        ("f.js", "import { call } from 'catena'\nexport default call => call('a/b')", Calls(&[])),
        ("f.js", "const call = x => x; export default () => call('a/b')", Calls(&[])),
        ("f.js", "import { call } from 'catena'\nexport default () => call(...['a/b'])", Calls(&["2:22 (computed)"])),
        ("f.js", "import { call } from 'catena'\nexport default () => call()", Calls(&["2:22 (computed)"])),
        ("f.js", "import { call } from 'catena'\nexport default () => ('ä', call('ä/ö'))", Calls(&["2:28 ä/ö"])),
        (
            "f.js",
            "import { call } from 'catena'\nexport default () => call('a/b').then(() => call('c/d'))",
            Calls(&["2:22 a/b", "2:45 c/d"]),
        ),
    ]);
}

#[test]
fn wrong_syntax_is_shown() {
    check_all(&[
        ("f.js", "export default (", Refused(Syntax, "1:17", "1 | export default (\n  |                 ^")),
        (
            "f.ts",
            "\n\texport default ) + 1",
            Refused(Syntax, "2:17", "2 | \texport default ) + 1\n  | \t               ^"),
        ),
        ("f.js", "export default (x: number) => x", Refused(Syntax, "1:18", "this is TypeScript: name the file .ts")),
        ("f.js", "export default () => { return await 1 }", Refused(Syntax, "1:31", "syntax error")),
        ("f.js", "with (a) {}; export default f", Refused(Syntax, "1:1", "syntax error")),
        ("f.js", "export default \u{1b}[31m", Refused(Syntax, "1:16", "1 | export default \u{fffd}[31m")),
        ("f.ts", "@log export default class A {}", Refused(Syntax, "1:1", "syntax error")),
        ("f.js", "export default <a/>", Refused(Syntax, "1:16", "syntax error")),
    ]);
}

#[test]
fn more_than_types_is_named() {
    check_all(&[
        ("f.ts", "enum A { B }; export default f", Refused(NotOnlyTypes, "1:1", "as const`")),
        ("f.ts", "const enum A { B }; export default f", Refused(NotOnlyTypes, "1:1", "enum is more than a type")),
        (
            "f.ts",
            "export default f;\n  namespace A { let b = 1 }",
            Refused(NotOnlyTypes, "2:3", "a namespace of types alone is fine"),
        ),
        (
            "f.ts",
            "class A { constructor(private b: C) {} }; export default f",
            Refused(NotOnlyTypes, "1:31", "declare the field"),
        ),
        ("f.ts", "import a = require('b'); export default f", Refused(NotOnlyTypes, "1:1", "there is no require")),
        ("f.ts", "import a = b.c; export default f", Refused(NotOnlyTypes, "1:1", "import x = ...")),
        ("f.ts", "const f = 1; export = f", Refused(NotOnlyTypes, "1:14", "export default async function")),
        ("f.ts", "export default <A>f", Refused(NotOnlyTypes, "1:16", "`x as T`")),
        ("f.ts", "export default () => (-1 as any) ** 2, (-1 as A) ** 2", Refused(Syntax, "1:38", "syntax error")),
        ("f.ts", "enum A {}\nenum B {}\nexport default f", Refused(NotOnlyTypes, "1:1", "1 | enum A {}")),
    ]);
}

#[test]
fn only_catena_is_imported() {
    check_all(&[
        ("f.js", "import { call, log } from 'catena'; export default f", Calls(&[])),
        (
            "f.ts",
            "import type A from 'left-pad'; export type { B } from './b'; export type * from 'c'; export default f",
            Calls(&[]),
        ),
        ("f.js", "import a from './a.js'; export default f", Refused(Import, "1:15", "travels alone")),
        ("f.js", "import a from '/a.js'; export default f", Refused(Import, "1:15", "travels alone")),
        (
            "f.js",
            "import 'https://example.org/a.js'; export default f",
            Refused(Import, "1:8", "esbuild FILE --bundle"),
        ),
        ("f.js", "import a from 'left-pad'; export default f", Refused(Import, "1:15", "packages are not installed")),
        ("f.js", "import a from 'node:fs'; export default f", Refused(Import, "1:15", "calling a service")),
        (
            "f.js",
            "import a from 'catena/x'; export default f",
            Refused(Import, "1:15", "\"catena\" only, and this is \"catena/x\""),
        ),
        (
            "f.ts",
            "import { type A } from './a'; export default f",
            Refused(Import, "1:24", "write `import type { ... }`"),
        ),
        ("f.js", "export * from './a'; export default f", Refused(Import, "1:15", "travels alone")),
        ("f.js", "export { default } from './a'", Refused(Import, "1:25", "travels alone")),
        ("f.js", "import {} from '\\u0007'; export default f", Refused(Import, "1:16", "only, and this is \"\\u{7}\"")),
        (
            "f.js",
            "export default () => import('catena')",
            Refused(DynamicImport, "1:22", "cannot load modules while it runs"),
        ),
        (
            "f.js",
            "export default f; () => import('./a'); import a from './b'",
            Refused(DynamicImport, "1:25", "refused"),
        ),
    ]);
}

#[test]
fn a_chain_has_a_function_to_start_with() {
    check_all(&[
        ("f.js", "async function f() {}; export { f as default }", Calls(&[])),
        ("f.js", "async function f() {}; export { f as 'default' }", Calls(&[])),
        ("f.js", "export default class {}", Refused(DefaultExport, "1:16", "the default export is a class")),
        ("f.js", "export default ({})", Refused(DefaultExport, "1:17", "the default export is an object")),
        ("f.js", "export default 1", Refused(DefaultExport, "1:16", "the default export is a constant")),
        ("f.js", "export default []", Refused(DefaultExport, "1:16", "the default export is an array")),
        ("f.ts", "export default interface A {}", Refused(DefaultExport, "", "no default export")),
        ("f.js", "", Refused(DefaultExport, "", "write `export default async function main(input)")),
        ("f.js", "\nexport async function f() {}", Refused(DefaultExport, "2:8", "put `export default` before")),
        (
            "f.ts",
            "type A = 1; function f() {}; export type { A as default }",
            Refused(DefaultExport, "1:13", "put `export default` before"),
        ),
    ]);
}

#[test]
fn the_file_says_what_it_is() {
    check_all(&[
        ("f", "", Refused(FileName, "", "name a file that ends in .js")),
        ("f.TS", "", Refused(FileName, "", "name a file that ends in .js")),
        ("f.cjs", "", Refused(FileName, "", "is an ES module")),
        ("f.tsx", "", Refused(FileName, "", "no JSX")),
        ("types.d.ts", "", Refused(FileName, "", "declares types")),
        ("f.wasm", "", Refused(FileName, "", "needs no preparation")),
        ("a.b/f.js", "export default f", Calls(&[])),
    ]);
}

#[test]
fn bytes_are_text_of_bounded_length() {
    let refusal = prepare_bytes("f.js", b"let a\n = '\xff'").unwrap_err();
    check_refusal(&refusal, NotUtf8, "2:5", "byte 10 (0xff) is not UTF-8", "a byte that is not text");
    let longest = format!("export default f{}", " ".repeat(SOURCE_BYTES_MAX - 16));
    check("f.ts", &longest, &Calls(&[]));
    check("f.ts", &(longest.clone() + " "), &Refused(TooLong, "", "source_bytes_max is 1048576"));
    let refusal = prepare_bytes("f.ts", &vec![0xff; SOURCE_BYTES_MAX + 1]).unwrap_err();
    check_refusal(&refusal, TooLong, "", "1048577 bytes", "too long is said before not UTF-8");
}

/// Shapes that take the parser deepest: what would end the process on an ordinary stack.
#[test]
fn nesting_without_bound_ends_no_process() {
    const LEVELS: usize = 30_000;
    for (open, middle, close) in
        [("(", "1", ")"), ("[", "1", "]"), ("a=>", "1", ""), ("!", "1", ""), ("1+", "1", ""), ("-", "1", "")]
    {
        let source = format!("export default async x => {}{middle}{}", open.repeat(LEVELS), close.repeat(LEVELS));
        for name in ["f.js", "f.ts"] {
            // Accepted or refused: it comes back.
            let _ = prepare(name, &source);
        }
    }
}

#[test]
fn work_that_does_not_end_and_work_that_panics_are_answered() {
    let (held, hold) = std::sync::mpsc::sync_channel::<()>(0);
    let endless = confined::run("f.js", "", 0, move |_, _| {
        let _ = hold.recv();
        Ok(())
    });
    check_refusal(&endless.unwrap_err(), TooComplex, "", "more than prepare_wall_ms_max, 0 ms", "work without end");
    drop(held);
    let panicked = confined::run::<(), _>("f.js", "", 60_000, |_, _| panic!("on purpose"));
    check_refusal(&panicked.unwrap_err(), Internal, "", "its fault and not yours", "work that panics");
}

#[test]
fn a_long_line_is_shown_in_part() {
    let source = format!("export default () => '{}' + ) // {}", "ä".repeat(1000), "ö".repeat(1000));
    let printed = prepare("f.js", &source).unwrap_err().to_string();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[2].chars().count(), "1 | ".len() + 120, "{printed}");
    let caret = lines[3].chars().position(|c| c == '^').unwrap();
    assert_eq!(lines[2].chars().nth(caret), Some(')'), "{printed}");
}

/// Every part of a program that survives stands where it stood: same lines, and in each line the same UTF-16 columns.
/// Where something was taken away there are blanks, or the punctuation that keeps the rest apart.
fn check_nothing_moved(before: &str, after: &str) {
    let lines = |text: &str| text.split('\n').map(|line| line.encode_utf16().collect::<Vec<_>>()).collect::<Vec<_>>();
    let (before, after) = (lines(before), lines(after));
    assert_eq!(before.len(), after.len(), "lines");
    for (number, (before, after)) in before.iter().zip(&after).enumerate() {
        assert_eq!(before.len(), after.len(), "columns in line {}", number + 1);
        for (column, (was, is)) in before.iter().zip(after).enumerate() {
            let blank_or_apart =
                char::from_u32(u32::from(*is)).is_some_and(|c| c.is_whitespace() || ";(),=>".contains(c));
            assert!(was == is || blank_or_apart, "line {} column {}: {was:#x} became {is:#x}", number + 1, column + 1);
        }
    }
}

fn program() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("type T<A> = { a: A; b?: 'ä€𝄞' }"),
        Just("interface I extends J<K> {\n  m(x: number): void\n}"),
        Just("let 𝒳ä: Map<string, Array<number>> = new Map<string, number[]>()"),
        Just("function f<T extends object>(this: Window, a?: T, ...b: T[]): asserts a is T { return a! as T }"),
        Just(
            "abstract class C<T> extends D<T> implements I, J {\n  private x?: number = 1; declare y: string; readonly #z!: T;\n  abstract m(): void; public static override n<U>(a: U): U { return a }\n  [k: string]: any\n}"
        ),
        Just("const g = async <T,>(a: T): Promise<\n  T\n> => a"),
        Just("const s = `é${(a as string)}𝄞` satisfies string"),
        Just("declare module 'x' { export const y: number }"),
        Just("import type { A, B } from './types'"),
        Just("import { call, type Z } from 'catena'"),
        Just("for (const x of y as any[]) { if (x!) continue; else type Q = 1 }"),
        Just("const r = /[/'\"]+/u.test('<T>') ? a<b>(c) : (d as unknown as E).f!.g"),
        Just("// comment: with ä 'quotes\n"),
        Just("/* block: string\n é */"),
    ];
    let parts = prop::collection::vec((part, prop_oneof![Just(";\n"), Just("\n"), Just(";\r\n"), Just("; ")]), 0..12);
    parts.prop_map(|parts| {
        let body: String = parts.into_iter().flat_map(|(part, end)| [part, end]).collect();
        body + "\nexport default async function main(input: unknown): Promise<void> {}"
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_gets_an_answer(source in "\\PC*|.*", typed: bool) {
        match prepare(if typed { "f.ts" } else { "f.js" }, &source) {
            Ok(script) => check_nothing_moved(source.strip_prefix('\u{feff}').unwrap_or(&source), &script.source),
            Err(error) => prop_assert_ne!(error.kind, ErrorKind::Internal, "{}", error),
        }
    }

    #[test]
    fn any_words_get_an_answer(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "import", "export", "default", "type", "from", "'catena'", "'./x'", "{", "}", "(", ")", "<", ">", "[", "]", "as",
                "=>", "=", ";", ":", ",", "?", "!", "x", "call", "async", "await", "function", "class", "enum", "declare",
                "namespace", "abstract", "private", "`", "${", "/", "\n", "ä", "𝄞", "let", "interface", "static", "1", "**", "@", "...",
            ]),
            0..40,
        ),
        typed: bool,
    ) {
        let source = words.join(" ");
        match prepare(if typed { "f.ts" } else { "f.js" }, &source) {
            Ok(script) => check_nothing_moved(&source, &script.source),
            Err(error) => prop_assert_ne!(error.kind, ErrorKind::Internal, "{}", error),
        }
    }

    #[test]
    fn any_bytes_get_an_answer(source: Vec<u8>) {
        let text = std::str::from_utf8(&source);
        match prepare_bytes("f.ts", &source) {
            Ok(script) => {
                let text = text.expect("only text is prepared");
                check_nothing_moved(text.strip_prefix('\u{feff}').unwrap_or(text), &script.source);
            }
            Err(error) => prop_assert_eq!(error.kind == ErrorKind::NotUtf8, text.is_err(), "{}", error),
        }
    }

    #[test]
    fn nothing_moves_and_what_is_left_is_javascript(source in program()) {
        match prepare("f.ts", &source) {
            Ok(script) => {
                check_nothing_moved(&source, &script.source);
                let again = prepare("f.js", &script.source);
                prop_assert!(again.is_ok(), "not JavaScript: {}\n{}", again.unwrap_err(), script.source);
            }
            // The same declaration twice.
            Err(error) => prop_assert_eq!(error.kind, Syntax, "{}", error),
        }
    }
}
