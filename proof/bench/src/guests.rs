//! One hop in the guest (lay the continuation over the image, resume, take the difference), and loading a function.

use std::{fmt::Write as _, sync::Arc, time::Instant};

use catena::{Function, FunctionKind, Sandbox, Value, to_value};
use catena_guest::{Image, Start};
use serde_json::json;

use crate::{
    Failure,
    mesh::{self, sample},
    stats::Spread,
};

const MAIL: &str = r#"import { call, emit } from "catena";

export default async function openMail({ user, id }) {
  const mail = await call("mail.storage/get", { user, id });
  if (mail.size > 1e6) emit({ subject: mail.subject });
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}
"#;

/// What a cold hop finds in the caches instead of its own.
const TOUCHED_BYTES: usize = 1 << 20;
const CACHE_LINE_BYTES: usize = 64;

const START: Start = Start { started_at_ms: 1_700_000_000_000, seed: 42 };

const RUNS: usize = 4_000;
/// Loading takes a hundred times as long.
const LOADS: usize = 100;
const USERS: usize = 50;

/// One measurement, in a process where nothing else was measured, with one of `parts` of the work: the median.
pub(crate) async fn value(key: &str, parts: usize) -> Result<f64, Failure> {
    let sandbox = &mesh::sandbox()?;
    let each = match key {
        "hop_js_us" => hop_js(sandbox, RUNS / parts, 0).await,
        "hop_js_cold_us" => hop_js(sandbox, RUNS / parts, TOUCHED_BYTES).await,
        "hop_wasm_us" => hop_wasm(sandbox, RUNS / parts).await,
        "load_js_us" => load(sandbox, LOADS / parts).await,
        "mail_state_bytes" => state_bytes(sandbox, &mail(sandbox), USERS / parts).await,
        _ => return Err(format!("{key} is not measured alone").into()),
    };
    Ok(Spread::of(each?).median)
}

fn mail(sandbox: &Sandbox) -> Function {
    sandbox.function(FunctionKind::JavaScript, "mail.js", MAIL.as_bytes().to_vec())
}

async fn hop_js(sandbox: &Sandbox, runs: usize, touched_bytes: usize) -> Result<Vec<f64>, Failure> {
    hop(sandbox, &mail(sandbox), &to_value(&json!({ "user": "you", "id": 7 }))?, runs, touched_bytes).await
}

async fn hop_wasm(sandbox: &Sandbox, runs: usize) -> Result<Vec<f64>, Failure> {
    let compiled = sandbox.function(FunctionKind::Wasm, "relay", sample("relay")?);
    let input = to_value(&json!({ "hops": ["one/noop", "two/noop", "three/noop"], "value": null }))?;
    hop(sandbox, &compiled, &input, runs, 0).await
}

/// How large the continuation is while the function awaits its first call, for one user and another.
async fn state_bytes(sandbox: &Sandbox, function: &Function, users: usize) -> Result<Vec<f64>, Failure> {
    let image = sandbox.load(function.hash(), &function.encode()).await?;
    let mut each = Vec::new();
    for user in 0..users {
        let mut session = sandbox.begin(&image).await?;
        let input = to_value(&json!({ "user": format!("user {user}"), "id": user }))?;
        session.start(&input, START).await?;
        each.push(session.suspend().await?.len() as f64);
    }
    Ok(each)
}

/// Resume with a result of some 200 bytes, run to the next await, take the difference: microseconds. Before each, `touched_bytes`
/// of other memory are written to.
async fn hop(
    sandbox: &Sandbox,
    function: &Function,
    input: &Value,
    runs: usize,
    touched_bytes: usize,
) -> Result<Vec<f64>, Failure> {
    let result = &to_value(&json!({ "subject": "hello", "size": 120, "body": "a mail of some words ".repeat(6) }))?;
    let mut other = vec![0_u8; touched_bytes];
    let image: Arc<Image> = sandbox.load(function.hash(), &function.encode()).await?;
    let mut first = sandbox.begin(&image).await?;
    let turn = first.start(input, START).await?;
    let call = turn.calls.first().ok_or("the function calls nothing")?.call;
    let continuation = first.suspend().await?;
    let mut each = Vec::with_capacity(runs);
    for run in 0..runs + runs / 10 {
        other.iter_mut().step_by(CACHE_LINE_BYTES).for_each(|byte| *byte = byte.wrapping_add(1));
        std::hint::black_box(&mut other);
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
    Ok(each)
}

/// Functions of about 5 KB, each one new.
async fn load(sandbox: &Sandbox, runs: usize) -> Result<Vec<f64>, Failure> {
    let mut each = Vec::with_capacity(runs);
    for run in 0..runs {
        let source = five_kilobytes(run);
        let function = sandbox.function(FunctionKind::JavaScript, "five.js", source.into_bytes());
        let (hash, encoded) = (function.hash(), function.encode());
        let began = Instant::now();
        sandbox.load(hash, &encoded).await?;
        each.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(each)
}

/// Ordinary code of about 5,000 bytes, different for each `number`.
pub(crate) fn five_kilobytes(number: usize) -> String {
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
