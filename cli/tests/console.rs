//! The console of `catena run`: lines are shown as they come, ahead of the end (rpc-chains section 3.7).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Server, file, folder, world};

/// Goes to `red`, logs there, and waits there for longer than any test does; its branches do the same.
const WAITS: &str = r#"import { call, log, split } from "catena";
const wait = async () => {
  await call("probe.red/where", {});
  log("now at red");
  await call("probe.red/sleep", { ms: 300000 });
};
export default (branches) => (branches ? split([wait, () => call("probe.cam/where", {})]) : wait());
"#;

/// A run that has shown its line, which goes ahead with the chain's next sign of life. It would end by itself, in another way.
fn waiting(address: &str, branches: &str, begins: &str) -> (Server, tempfile::TempDir) {
    let folder = folder();
    let function = file(&folder, "waits.js", WAITS);
    let run = Server::start(&["run", &function, "--connect", address, "--arg", branches, "--timeout", "30s"]);
    let line = run.talk("now at red");
    assert!(line.starts_with(begins), "{line}");
    (run, folder)
}

#[test]
fn a_line_is_shown_before_the_chain_is_cancelled() {
    let (run, _folder) = waiting(&world().address, "false", "[red 1 +");
    assert_eq!(run.end_by("INT"), Some(130));
}

#[test]
fn a_line_of_a_branch_is_shown_before_they_merge() {
    let (run, _folder) = waiting(&world().address, "true", "[red 2 of branch 1 +");
    assert_eq!(run.end_by("INT"), Some(130));
}

#[test]
fn a_line_is_shown_before_the_chain_is_lost() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
    let address = server.ready()["nodes"][0]["address"].as_str().unwrap().to_owned();
    let (run, _folder) = waiting(&address, "false", "[red 1 +");
    server.kill();
    run.talk("Lost");
    assert_eq!(run.wait(), Some(1));
}
