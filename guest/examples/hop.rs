//! What one hop costs in the guest, part by part: `cargo run --release -p catena-guest --example hop`.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::{
    error::Error,
    hint::black_box,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use catena_guest::{FunctionKind, Image, Sandbox, SandboxConfig, Start};
use catena_wire::Value;
use minicbor::Encoder;

const RUNS: usize = 3_000;
const MAIL: &str = r#"import { call, emit } from "catena";

export default async function openMail({ user, id }) {
  const mail = await call("mail.storage/get", { user, id });
  if (mail.size > 1e6) emit({ subject: mail.subject });
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}
"#;
const START: Start = Start { started_at_ms: 1_700_000_000_000, seed: 42 };

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let warm = sandbox(64)?;
    let cold = sandbox(0)?;
    println!("changed pages are found by {:?}", warm.stats().page_finder);
    println!("{:44} {:>8} {:>8} {:>8}", "µs", "p10", "median", "p90");
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/guests");
    let relay = std::fs::read(guests.join("relay.wasm"))?;
    let relay_explicit = std::fs::read(guests.join("relay_explicit.wasm"))?;
    let cases = [
        ("JavaScript, openMail", FunctionKind::JavaScript, MAIL.into()),
        ("compiled, relay", FunctionKind::Wasm, relay),
        ("compiled, explicit state", FunctionKind::Wasm, relay_explicit),
    ];
    for (name, kind, code) in cases {
        println!("{name}");
        hop(&warm, kind, &code, "warm").await?;
        hop(&cold, kind, &code, "cold").await?;
    }
    load(&warm).await
}

fn sandbox(warm_instances_max: usize) -> Result<Sandbox, Box<dyn Error>> {
    Ok(Sandbox::new(SandboxConfig {
        cache_dir: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasmtime-cache")),
        warm_instances_max,
        ..SandboxConfig::default()
    })?)
}

/// One hop: resume with a result of about 200 bytes, run to the next await, take the difference.
async fn hop(sandbox: &Sandbox, kind: FunctionKind, code: &[u8], how: &str) -> Result<(), Box<dyn Error>> {
    let function = sandbox.function(kind, "bench", code.to_vec());
    let image = sandbox.load(function.hash(), &function.encode()).await?;
    let result = mail()?;
    let mut parts = [const { Vec::new() }; 5];
    let continuation = first_continuation(sandbox, &image).await?;
    for _ in 0..RUNS {
        let begin = Instant::now();
        let mut session = now(sandbox.resume(&image, &continuation))??;
        let resumed = Instant::now();
        let turn = now(session.settle(0, Ok(&result)));
        let settled = Instant::now();
        // Beyond an epoch's end it stands aside: that run measures something else.
        let turn = match turn {
            Ok(turn) => turn?,
            Err(_) => continue,
        };
        let bytes = now(session.suspend())??;
        let suspended = Instant::now();
        drop(session);
        let reset = Instant::now();
        if turn.calls.len() != 1 {
            return Err("the function did not go on to its next call".into());
        }
        black_box((turn, bytes));
        let spans = [(begin, resumed), (resumed, settled), (settled, suspended), (suspended, reset), (begin, reset)];
        for (part, (from, to)) in parts.iter_mut().zip(spans) {
            part.push((to - from).as_nanos());
        }
    }
    let [resume, run, suspend, reset, total] = &mut parts;
    print(&format!("  {how}: instance, continuation laid over"), resume);
    print(&format!("  {how}: deliver the result, run to the next await"), run);
    print(&format!("  {how}: difference: then the hop is sent"), suspend);
    print(&format!("  {how}: reset"), reset);
    print(&format!("  {how}: total of one hop"), total);
    println!("  continuation {} bytes, kept per function {} bytes", continuation.len(), image.len_bytes());
    Ok(())
}

async fn first_continuation(sandbox: &Sandbox, image: &Arc<Image>) -> Result<bytes::Bytes, Box<dyn Error>> {
    let mut e = Encoder::new(Vec::new());
    e.map(4)?.str("user")?.str("ann")?.str("id")?.u8(7)?;
    e.str("hops")?.array(3)?.str("a/f")?.str("b/f")?.str("c/f")?;
    e.str("value")?.str("something to carry")?;
    let input = Value::from_cbor(e.into_writer().into())?;
    let mut session = sandbox.begin(image).await?;
    let turn = session.start(&input, START).await?;
    if turn.calls.len() != 1 {
        return Err(format!("one call was expected: {turn:?}").into());
    }
    Ok(session.suspend().await?)
}

/// A function of 5 KB, from source to image.
async fn load(sandbox: &Sandbox) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::new();
    let mut kept = 0;
    for run in 0..200 {
        let source = five_kilobytes(run);
        let function = sandbox.function(FunctionKind::JavaScript, "five.js", source);
        let (hash, encoded) = (function.hash(), function.encode());
        let begin = Instant::now();
        let image = sandbox.load(hash, &encoded).await?;
        times.push(begin.elapsed().as_nanos());
        kept = image.len_bytes();
    }
    print("load a JavaScript function of 5 KB", &mut times);
    println!("  kept per function {kept} bytes");
    Ok(())
}

fn five_kilobytes(run: usize) -> String {
    let mut source = format!("import {{ call }} from \"catena\";\nconst run = {run};\n");
    for part in 0.. {
        if source.len() > 4_700 {
            break;
        }
        source += &format!(
            "function part{part}(items, limit) {{\n  const seen = new Map();\n  for (const item of items) {{\n    if (item.size > limit) seen.set(item.name, item.size * {part} + run);\n  }}\n  return [...seen.entries()].sort((a, b) => a[1] - b[1]).slice(0, 10);\n}}\n"
        );
    }
    source + "export default async function five(input) {\n  return part0(await call(\"a/b\", input), 3);\n}\n"
}

/// About 200 bytes, as a mail service would answer.
fn mail() -> Result<Value, Box<dyn Error>> {
    let mut e = Encoder::new(Vec::new());
    e.map(4)?.str("size")?.u32(1_200)?;
    e.str("subject")?.str("the weather in Cambridge")?;
    e.str("from")?.str("someone@example.org")?;
    e.str("body")?.str(&"a line of text, and another. ".repeat(4))?;
    Ok(Value::from_cbor(e.into_writer().into())?)
}

/// Polls once: a short step is done then.
fn now<F: Future>(future: F) -> Result<F::Output, &'static str> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err("it stood aside"),
    }
}

fn print(what: &str, nanos: &mut [u128]) {
    nanos.sort_unstable();
    let at = |part: usize| nanos.get(nanos.len() * part / 100).map_or(f64::NAN, |n| *n as f64 / 1e3);
    println!("{what:44} {:8.2} {:8.2} {:8.2}", at(10), at(50), at(90));
}
