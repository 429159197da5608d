//! Everything a program may keep across an `await` survives the move.

use crate::host::run;

/// Runs it with and without moves: both must end with this result.
fn check(source: &str, result: &str) {
    let source = format!("import {{ call, emit, log }} from \"catena\";\nconst echo = (x) => call(\"t/echo\", x);\n{source}");
    let stays = run(&source, "null", false);
    assert_eq!(stays, format!("[1, {result}]"), "without a move");
    assert_eq!(run(&source, "null", true), stays, "moved at every await");
}

#[test]
fn closures() {
    check(
        "export default async () => { let n = 1; const up = () => ++n; await echo(0); up(); await echo(0); return up(); }",
        "3",
    );
}
