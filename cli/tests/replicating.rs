//! A replicated file service over processes (rpc-chains section 4.1, Figure 5): client, primary and backup, each by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::json;
use support::{Server, catena, file, folder};

/// Writes a file by a service of which it knows the name only, and says where it has been.
const WRITES: &str = r#"import { call, log } from "catena";
export default async function (text: string) {
  const made = await call("files.safe/create", { path: "note.txt", how: "unchecked" });
  log("made");
  const data = new Uint8Array(text.length).map((_, at) => text.charCodeAt(at));
  const written = await call("files.safe/write", { handle: made.handle, offset: 0, data });
  log("written");
  return written.count;
}
"#;

struct Pair {
    folder: tempfile::TempDir,
    primary: Server,
    backup: Server,
    address: String,
    function: String,
}

impl Pair {
    fn start() -> Self {
        let folder = folder();
        for side in ["here", "there"] {
            std::fs::create_dir(folder.path().join(side)).unwrap();
        }
        let backup = "name = \"back\"\nlisten = \"127.0.0.1:0\"\n[[service]]\nkind = \"files\"\nname = \"files.there\"\nroot = \"there\"\n";
        let backup = Server::start(&["up", &file(&folder, "back.toml", backup), "--json"]);
        let join = backup.ready()["node"]["address"].as_str().unwrap().to_owned();
        let primary = format!(
            "name = \"front\"\nlisten = \"127.0.0.1:0\"\njoin = [\"{join}\"]\n\
             [[service]]\nkind = \"files\"\nname = \"files.here\"\nroot = \"here\"\n\
             [[service]]\nkind = \"replicated\"\nname = \"files.safe\"\nprimary = \"files.here\"\nbackup = \"files.there\"\n"
        );
        let primary = Server::start(&["up", &file(&folder, "front.toml", &primary), "--json"]);
        let address = primary.ready()["node"]["address"].as_str().unwrap().to_owned();
        let function = file(&folder, "writes.ts", WRITES);
        Self { folder, primary, backup, address, function }
    }

    fn run(&self, more: &[&str]) -> support::Ended {
        let mut arguments = vec!["run", &self.function, "--arg", "\"both\"", "--json", "--connect", &self.address];
        arguments.extend(more);
        catena(&arguments)
    }

    fn note(&self, side: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(side).join("note.txt")).ok()
    }
}

#[test]
fn what_is_written_to_the_replicated_service_is_at_both() {
    for (more, after) in [(vec![], "back"), (vec!["--no-compose"], "front")] {
        let pair = Pair::start();
        let ran = pair.run(&more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let told = ran.json_lines().pop().unwrap();
        assert_eq!((&told["result"], &told["ending"]), (&json!(4), &json!("answered")), "{told}");
        assert_eq!((pair.note("here").as_deref(), pair.note("there").as_deref()), (Some("both"), Some("both")));
        // Composed, the chain goes on where the replication ended; else where it was asked for.
        assert_eq!(told["log"][1]["node"], after, "{told}");
    }
}

#[test]
fn a_backup_that_is_gone_is_named_with_what_the_primary_has_done() {
    let Pair { folder, primary, backup, address, function } = Pair::start();
    backup.kill();
    let ran = catena(&["run", &function, "--arg", "\"one\"", "--connect", &address]);
    ran.failed(1, &["the backup files.there", "files.here has done this create", "they differ"]);
    assert!(folder.path().join("here/note.txt").exists() && !folder.path().join("there/note.txt").exists());
    assert_eq!(primary.end_by("TERM"), Some(0));
}
