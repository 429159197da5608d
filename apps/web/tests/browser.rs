//! What `make web` starts, in a real browser: a page, its style and picture, a large file whole and in part, and one that is not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "of what is there for all pages this one needs a part")]
#[path = "../../glickr/tests/chromium/mod.rs"]
mod chromium;

use std::process::Stdio;

use chromium::Page;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8"><link rel="stylesheet" href="look/style.css">
<h1>waits</h1><img src="look/picture.svg" alt="">
<script type="module" src="page.js"></script>
"#;

/// Tells what came, in an attribute of its own.
const SCRIPT: &str = r#"
const bytes = async (answer) => Array.from(new Uint8Array(await answer.arrayBuffer()));
const sum = (all) => all.reduce((sum, byte) => (sum * 31 + byte) % 1000003, 7);
const told = {};
const whole = await bytes(await fetch("large.bin"));
told.whole = [whole.length, sum(whole)];
const part = await fetch("large.bin", { headers: { Range: "bytes=2000000-2000003" } });
told.part = [part.status, part.headers.get("content-range"), await bytes(part)];
const head = await fetch("large.bin", { method: "HEAD" });
told.head = [head.status, head.headers.get("content-length"), (await bytes(head)).length];
told.missing = (await fetch("nobody.bin")).status;
told.outside = (await fetch("look/%2e%2e/%2e%2e/outside.txt")).status;
told.style = getComputedStyle(document.querySelector("h1")).color;
const picture = document.querySelector("img");
await picture.decode();
told.picture = [picture.naturalWidth, picture.naturalHeight];
document.body.dataset.told = JSON.stringify(told);
"#;

const LARGE_BYTES: usize = 5_000_000;

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| (sum * 31 + u64::from(*byte)) % 1_000_003)
}

/// The command that `make web` runs, and where a browser finds it.
async fn door(folder: &std::path::Path) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_web"));
    command.arg("both").arg(folder).args(["--port", "0"]).stdout(Stdio::piped()).kill_on_drop(true);
    let mut web = command.spawn().unwrap();
    let mut said = BufReader::new(web.stdout.take().unwrap()).lines();
    let line = said.next_line().await.unwrap().expect("it says where it is");
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
    (web, address.to_owned())
}

#[tokio::test]
async fn a_browser_shows_a_page_with_all_that_belongs_to_it() {
    let above = tempfile::tempdir().unwrap();
    std::fs::write(above.path().join("outside.txt"), "not served").unwrap();
    let folder = above.path().join("served");
    std::fs::create_dir_all(folder.join("look")).unwrap();
    let picture = r#"<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"></svg>"#;
    let large = large();
    for (name, bytes) in [
        ("index.html", PAGE.as_bytes()),
        ("page.js", SCRIPT.as_bytes()),
        ("look/style.css", b"h1 { color: rgb(1, 2, 3) }"),
        ("look/picture.svg", picture.as_bytes()),
        ("large.bin", &large),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let (_web, address) = door(&folder).await;
    let mut page = Page::open(&address, "document.body && document.body.dataset.told").await;
    let told: Value = serde_json::from_str(page.value("document.body.dataset.told").await.as_str().unwrap()).unwrap();
    let expected = json!({
        "whole": [LARGE_BYTES, sum(&large)],
        "part": [206, format!("bytes 2000000-2000003/{LARGE_BYTES}"), large[2_000_000..2_000_004].to_vec()],
        "head": [200, LARGE_BYTES.to_string(), 0],
        "missing": 404,
        "outside": 404,
        "style": "rgb(1, 2, 3)",
        "picture": [7, 5],
    });
    assert_eq!(told, expected);
}
