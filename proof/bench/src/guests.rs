//! One hop in the guest (lay the continuation over the image, resume, take the difference), and loading a function.

use std::{fmt::Write as _, sync::Arc, time::Instant};

use catena::{Function, FunctionKind, Sandbox, Value, to_value};
use catena_guest::{Image, Start};
use serde_json::json;

use crate::{Failure, mesh::sample, stats::Spread, summary::Summary};

const MAIL: &str = r#"import { call, emit } from "catena";

export default async function openMail({ user, id }) {
  const mail = await call("mail.storage/get", { user, id });
  if (mail.size > 1e6) emit({ subject: mail.subject });
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}
"#;

const START: Start = Start { started_at_ms: 1_700_000_000_000, seed: 42 };

pub(crate) async fn measure(sandbox: &Sandbox, runs: usize, summary: &mut Summary) -> Result<(), Failure> {
    let mail = to_value(&json!({ "subject": "hello", "size": 120, "body": "a mail of some words ".repeat(6) }))?;
    let javascript = sandbox.function(FunctionKind::JavaScript, "mail.js", MAIL.as_bytes().to_vec());
    let input = to_value(&json!({ "user": "you", "id": 7 }))?;
    let hop_js = hop(sandbox, &javascript, &input, &mail, runs).await?;
    summary.at_most("hop_js_us", "one hop in the guest, JavaScript, µs", hop_js, 40.0);
    let compiled = sandbox.function(FunctionKind::Wasm, "relay", sample("relay")?);
    let input = to_value(&json!({ "hops": ["one/noop", "two/noop", "three/noop"], "value": null }))?;
    let hop_wasm = hop(sandbox, &compiled, &input, &mail, runs).await?;
    summary.at_most("hop_wasm_us", "one hop in the guest, compiled, µs", hop_wasm, 12.0);
    load(sandbox, (runs / 40).max(8), summary).await
}

/// Resume with a result of some 200 bytes, run to the next await, take the difference: microseconds.
async fn hop(
    sandbox: &Sandbox,
    function: &Function,
    input: &Value,
    result: &Value,
    runs: usize,
) -> Result<Spread, Failure> {
    let image: Arc<Image> = sandbox.load(function.hash(), &function.encode()).await?;
    let mut first = sandbox.begin(&image).await?;
    let turn = first.start(input, START).await?;
    let call = turn.calls.first().ok_or("the function calls nothing")?.call;
    let continuation = first.suspend().await?;
    let mut each = Vec::with_capacity(runs);
    for run in 0..runs + runs / 10 {
        let began = Instant::now();
        let mut session = sandbox.resume(&image, &continuation).await?;
        let turn = session.settle(call, Ok(result)).await?;
        let next = session.suspend().await?;
        // Puts the instance back, which the next hop needs.
        drop(session);
        let us = began.elapsed().as_secs_f64() * 1e6;
        if turn.calls.len() != 1 || next.is_empty() {
            return Err("the function did not go on as it should".into());
        }
        if run >= runs / 10 {
            each.push(us);
        }
    }
    Ok(Spread::of(each))
}

/// Functions of about 5 KB, each one new.
async fn load(sandbox: &Sandbox, runs: usize, summary: &mut Summary) -> Result<(), Failure> {
    let mut each = Vec::with_capacity(runs);
    let mut kept = Vec::with_capacity(runs);
    for run in 0..runs {
        let source = five_kilobytes(run);
        let function = sandbox.function(FunctionKind::JavaScript, "five.js", source.into_bytes());
        let (hash, encoded) = (function.hash(), function.encode());
        let began = Instant::now();
        let image = sandbox.load(hash, &encoded).await?;
        each.push(began.elapsed().as_secs_f64() * 1e6);
        kept.push(image.len_bytes() as f64);
    }
    summary.at_most("load_js_us", "load a 5 KB JavaScript function, µs", Spread::of(each), 1_000.0);
    summary.at_most("cached_js_bytes", "memory kept per cached function, bytes", Spread::of(kept), 16_384.0);
    Ok(())
}

/// Ordinary code of about 5,000 bytes, different for each `number`.
fn five_kilobytes(number: usize) -> String {
    let mut source = String::from("import { call, log } from \"catena\";\n\n");
    let mut part = 0;
    while source.len() < 4_600 {
        let _ = write!(
            source,
            "function rank{part}(items, limit) {{\n  const kept = items.filter((item) => item.score > limit + {number});\n  \
             kept.sort((a, b) => b.score - a.score || a.name.localeCompare(b.name));\n  \
             return kept.slice(0, {part} + 10).map((item, index) => ({{ ...item, rank: index + 1 }}));\n}}\n\n"
        );
        part += 1;
    }
    source.push_str("export default async function search({ query, limit }) {\n  let items = await call(\"index/find\", { query });\n");
    for index in 0..part {
        let _ = writeln!(source, "  items = rank{index}(items, limit);");
    }
    source.push_str("  log(`kept ${items.length}`);\n  return items;\n}\n");
    source
}
