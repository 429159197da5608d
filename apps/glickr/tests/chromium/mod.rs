//! A headless Chromium, driven over its DevTools protocol on a pair of pipes: no port, and no WebSocket.
#![allow(unreachable_pub)]

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// The longest that a step may take, a cold start of the browser included.
const PATIENCE: Duration = Duration::from_secs(90);

/// It reads commands from descriptor 3 and writes answers to 4, each ended by a zero; they are our ends of its standard input and output.
const SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>&2"#;

const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
    "--force-prefers-reduced-motion",
    "about:blank",
];

/// A page in a browser of its own. Dropping it ends the browser.
pub struct Page {
    _browser: Child,
    _profile: tempfile::TempDir,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    number: u64,
}

impl Page {
    /// Opens `url`, and waits until `ready` holds there.
    pub async fn open(url: &str, ready: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Command::new("sh");
        browser
            .args(["-c", SCRIPT, "sh", "chromium"])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()));
        browser.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut browser = browser.spawn().unwrap();
        let (commands, answers) = (browser.stdin.take().unwrap(), BufReader::new(browser.stdout.take().unwrap()));
        let mut page = Self { _browser: browser, _profile: profile, commands, answers, session: None, number: 0 };
        let target = page.command("Target.createTarget", json!({ "url": "about:blank" })).await["targetId"].clone();
        let attached = page.command("Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await;
        page.session = attached["sessionId"].as_str().map(str::to_owned);
        // Answered when the page has taken the place of the blank one: what is evaluated before that is lost with it.
        page.command("Page.navigate", json!({ "url": url })).await;
        page.until(ready).await;
        page
    }

    /// The value of an expression.
    pub async fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.command("Runtime.evaluate", params).await;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until a condition on the document holds: it is looked at whenever the document changes.
    pub async fn until(&mut self, condition: &str) {
        let watch = format!(
            "new Promise((done) => {{ const look = () => !!({condition}) && (watching.disconnect(), done(true)); \
             const watching = new MutationObserver(look); \
             watching.observe(document, {{ subtree: true, childList: true, attributes: true, characterData: true }}); look(); }})"
        );
        assert_eq!(self.value(&watch).await, true, "{condition}");
    }

    /// Types into the element that has the focus.
    pub async fn types(&mut self, text: &str) {
        self.command("Input.insertText", json!({ "text": text })).await;
    }

    /// A picture of what is to be seen, PNG in base64.
    pub async fn screenshot(&mut self) -> String {
        self.command("Page.captureScreenshot", json!({})).await["data"].as_str().unwrap().to_owned()
    }

    pub async fn command(&mut self, method: &str, params: Value) -> Value {
        tokio::time::timeout(PATIENCE, self.ask(method, params))
            .await
            .unwrap_or_else(|_| panic!("{method} took too long"))
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).await.unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).await.unwrap();
            assert_eq!(answer.pop(), Some(0), "the browser has ended: is it installed? tools/bootstrap.sh tests");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            // Events have no number.
            if answer["id"] == self.number {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }
}
