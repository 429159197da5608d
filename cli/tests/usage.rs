//! Usage, input files and JSON: what is wrong is named, with its place and the nearest right word, before anything is connected.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../catena/tests/common/held.rs"]
mod held;
mod support;

use held::HeldPort;
use support::{catena, catena_with_input, command, end, file, folder};

#[test]
fn help_shows_the_tour_and_the_exit_codes() {
    let help = catena(&["--help"]);
    assert_eq!(help.code, Some(0));
    for part in ["catena dev", "catena call probe.cam/echo", "--explain", "Exit codes:", "130"] {
        assert!(help.out.contains(part), "{part}: {}", help.out);
    }
    for subcommand in ["up", "dev", "run", "call", "debug", "replay", "ls", "segments", "check", "completions"] {
        let help = catena(&[subcommand, "--help"]);
        assert_eq!(help.code, Some(0), "{subcommand}");
        assert!(help.out.contains(&format!("catena {subcommand}")), "{}", help.out);
        assert!(help.out.contains("xample"), "{subcommand}: {}", help.out);
    }
    let version = catena(&["--version"]);
    assert_eq!(version.out.trim(), concat!("catena ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_unknown_flag_or_subcommand_has_the_nearest() {
    catena(&["run", "x.ts", "--explan"]).failed(2, &["--explan", "--explain"]);
    catena(&["chek", "x.ts"]).failed(2, &["chek", "check"]);
    catena(&["run", "x.ts", "--site", "mtw"]).failed(2, &["mtw", "mtv"]);
    catena(&["run", "x.ts", "--timeout", "60"]).failed(2, &["60s or 2m"]);
    catena(&["ls", "--connect", "nowhere"]).failed(2, &["HOST:PORT"]);
    catena(&["call", "probe.mtv"]).failed(2, &["SERVICE/FUNCTION"]);
    catena(&["dev", "--port-base", "65535"]).failed(2, &["four ports"]);
    catena(&[]).failed(2, &["Usage"]);
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let made = catena(&["completions", shell]);
        assert_eq!(made.code, Some(0));
        assert!(
            ["explain", "no-compose", "credentials", "replay", "script"].iter().all(|word| made.out.contains(word))
                && made.err.is_empty(),
            "{shell}"
        );
    }
    catena(&["completions", "bsh"]).failed(2, &["bash"]);
}

#[test]
fn a_function_that_cannot_be_read_is_named() {
    let folder = folder();
    let there = file(&folder, "greet.ts", "export default async () => 1;");
    let missing = there.replace("greet.ts", "gret.ts");
    catena(&["run", &missing]).failed(2, &["gret.ts does not exist", "did you mean", "greet.ts?"]);
    catena(&["check", "/no/such/folder/x.ts"]).failed(2, &["does not exist, nor does its folder"]);
    catena(&["run", folder.path().to_str().unwrap()]).failed(2, &["is a directory"]);
    // A file that even root cannot read from.
    let unreadable = folder.path().join("unreadable.ts");
    std::os::unix::fs::symlink("/proc/self/mem", &unreadable).unwrap();
    catena(&["run", unreadable.to_str().unwrap()]).failed(2, &["unreadable.ts cannot be read"]);
    let other = file(&folder, "greet.txt", "");
    catena(&["run", &other]).failed(2, &["greet.txt", "help:"]);
}

#[test]
fn a_syntax_error_has_its_line_column_and_caret() {
    let folder = folder();
    let bad =
        file(&folder, "bad.ts", "import { call } from \"catena\";\nexport default async () => {\n  const = 7;\n};\n");
    for subcommand in ["run", "check"] {
        let ended = catena(&[subcommand, &bad]);
        ended.failed(2, &["bad.ts:3:9: error:", "3 |   const = 7;\n  |         ^", "help:"]);
        assert!(ended.out.is_empty());
    }
    let json = catena(&["check", &bad, "--json"]);
    assert_eq!(json.code, Some(2));
    let error = &json.json()["error"];
    assert_eq!(
        (error["name"].as_str(), error["line"].as_u64(), error["column"].as_u64()),
        (Some("Syntax"), Some(3), Some(9))
    );
}

#[test]
fn bad_json_has_its_place() {
    let folder = folder();
    let function = file(&folder, "f.ts", "export default async () => 1;");
    catena(&["run", &function, "--arg", "{\"a\": nul}"])
        .failed(2, &["argument:1:", "not JSON", "{\"a\": nul}", "^", "help:"]);
    let input = file(&folder, "in.json", "{\n  \"a\": [1, 2\n}\n");
    catena(&["run", &function, "--arg", &format!("@{input}")]).failed(2, &["in.json:3:1", "3 | }"]);
    catena(&["run", &function, "--arg", "@/no/such.json"]).failed(2, &["/no/such.json does not exist"]);
    catena_with_input(&["run", &function, "--arg", "-"], "[1,").failed(2, &["standard input:1:", "not JSON"]);
    catena(&["call", "probe.mtv/echo", "hello"]).failed(2, &["not JSON", "quoted for the shell"]);
    let deep = "[".repeat(100) + &"]".repeat(100);
    catena(&["call", "probe.mtv/echo", &deep]).failed(2, &["nested"]);
}

#[test]
fn nobody_there_is_exit_code_3() {
    let held = HeldPort::new();
    let address = held.address.to_string();
    catena(&["ls", "--connect", &address]).failed(3, &[&address, "catena dev", "--connect"]);
    let json = catena(&["ls", "--connect", &address, "--json"]);
    assert_eq!(json.code, Some(3));
    assert_eq!(json.json()["error"]["name"], "CannotReach");
    let by_environment = end(command(&["ls"]).env("CATENA_CONNECT", &address).spawn().unwrap());
    by_environment.failed(3, &[&address]);
}

#[test]
fn colour_is_the_users_choice() {
    let plain = catena(&["run", "/no/such.ts"]);
    assert!(!plain.err.contains('\u{1b}'), "{plain:?}");
    let always = catena(&["run", "/no/such.ts", "--color", "always"]);
    assert!(always.err.contains("\u{1b}[1;31merror:"), "{always:?}");
    let never = catena(&["run", "--explan", "--color", "never"]);
    assert!(!never.err.contains('\u{1b}'), "{never:?}");
}

#[test]
fn check_says_what_a_function_calls() {
    let folder = folder();
    let source = "import { call } from \"catena\";\nexport default async (to: string) => {\n  await call(\"probe.mtv/echo\", 1);\n  return call(to);\n};\n";
    let function = file(&folder, "f.ts", source);
    let checked = catena(&["check", &function, "--json"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let json = checked.json();
    assert_eq!(json["hash"].as_str().map(str::len), Some(64));
    assert_eq!(json["calls"][0]["target"], "probe.mtv/echo");
    assert_eq!((json["calls"][0]["line"].as_u64(), json["calls"][0]["column"].as_u64()), (Some(3), Some(9)));
    assert!(json["calls"][1]["target"].is_null());
    let people = catena(&["check", &function]);
    assert!(
        people.out.contains("3:9") && people.out.contains("probe.mtv/echo") && people.out.contains("(computed)"),
        "{people:?}"
    );
    let module = file(&folder, "f.wasm", "not wasm");
    catena(&["check", &module]).failed(2, &["f.wasm", "help:"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = command(&["completions", "zsh"]).spawn().unwrap();
    drop(child.stdout.take());
    let ended = end(child);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}
