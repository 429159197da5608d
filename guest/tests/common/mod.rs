//! What the tests share: sandboxes, values from JSON, and a world that answers a function's calls.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::result_large_err, reason = "an exception is what a chain ends with")]

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use catena_guest::{FunctionKind, GuestCall, Image, Sandbox, SandboxConfig, Session, Start, Turn};
use catena_wire::{Exception, Fault, Value};
use minicbor::{Decoder, Encoder, data::Type};
use serde_json::{Value as Json, json};

pub(crate) const START: Start = Start { started_at_ms: 1_700_000_000_123, seed: 0x0123_4567_89ab_cdef };

/// Two nodes' sandboxes: what was suspended in one is resumed in the other.
pub(crate) static NODES: LazyLock<[Sandbox; 2]> = LazyLock::new(|| [sandbox(config()), sandbox(config())]);

pub(crate) fn config() -> SandboxConfig {
    SandboxConfig { cache_dir: Some(target().join("wasmtime-cache")), ..SandboxConfig::default() }
}

pub(crate) fn sandbox(config: SandboxConfig) -> Sandbox {
    Sandbox::new(config).expect("a sandbox")
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
}

/// A sample guest, built by `make engine`.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let path = target().join("guests").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: run `make engine`", path.display()))
}

pub(crate) async fn load_js(sandbox: &Sandbox, source: &str) -> Result<Arc<Image>, Exception> {
    let function = sandbox.function(FunctionKind::JavaScript, "test.js", source.to_owned());
    sandbox.load(function.hash(), &function.encode()).await
}

pub(crate) async fn load_wasm(sandbox: &Sandbox, module: &[u8]) -> Result<Arc<Image>, Exception> {
    let function = sandbox.function(FunctionKind::Wasm, "test.wasm", module.to_vec());
    sandbox.load(function.hash(), &function.encode()).await
}

/// A module with so many pages of memory, and as many at most if they are given too, whose `catena_start` does this.
pub(crate) fn starting(memory_pages: impl std::fmt::Display, start: &str) -> Vec<u8> {
    let module = format!(
        r#"(module (memory (export "memory") {memory_pages})
          (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 1024)
          (func (export "catena_start") (param i32 i32) (result i64) {start} i64.const 0)
          (func (export "catena_resume") (param i32 i32) (result i64) i64.const 0))"#
    );
    wat::parse_str(module).expect("a module")
}

/// CBOR from JSON. `{"$bytes": n}` is a byte string of n bytes.
pub(crate) fn value(json: &Json) -> Value {
    fn put(e: &mut Encoder<Vec<u8>>, json: &Json) {
        match json {
            Json::Null => drop(e.null()),
            Json::Bool(value) => drop(e.bool(*value)),
            Json::Number(value) => match value.as_i64() {
                Some(value) => drop(e.i64(value)),
                None => drop(e.f64(value.as_f64().expect("a number"))),
            },
            Json::String(value) => drop(e.str(value)),
            Json::Array(items) => {
                e.array(items.len() as u64).expect("memory");
                items.iter().for_each(|item| put(e, item));
            }
            Json::Object(entries) => {
                if let Some(count) = entries.get("$bytes").and_then(Json::as_u64) {
                    drop(e.bytes(&vec![7; count as usize]));
                    return;
                }
                e.map(entries.len() as u64).expect("memory");
                for (key, item) in entries {
                    e.str(key).expect("memory");
                    put(e, item);
                }
            }
        }
    }
    let mut e = Encoder::new(Vec::new());
    put(&mut e, json);
    Value::from_cbor(e.into_writer().into()).expect("CBOR")
}

/// JSON from CBOR: byte strings as `{"$bytes": n}`, whole floats as integers, all else that JSON has not as text.
pub(crate) fn json_of(value: &Value) -> Json {
    fn take(d: &mut Decoder<'_>) -> Json {
        match d.datatype().expect("CBOR") {
            Type::Map => {
                let count = d.map().expect("a map").expect("definite");
                let entries = (0..count).map(|_| {
                    let key = match take(d) {
                        Json::String(key) => key,
                        key => key.to_string(),
                    };
                    (key, take(d))
                });
                Json::Object(entries.collect())
            }
            Type::Array => {
                let count = d.array().expect("an array").expect("definite");
                (0..count).map(|_| take(d)).collect()
            }
            Type::String => json!(d.str().expect("text")),
            Type::Bool => json!(d.bool().expect("bool")),
            Type::Null => {
                d.null().expect("null");
                Json::Null
            }
            Type::Bytes => json!({ "$bytes": d.bytes().expect("bytes").len() }),
            Type::F16 | Type::F32 | Type::F64 => {
                let number = d.f64().expect("a number");
                if number.fract() == 0.0 && number.abs() < 9e15 { json!(number as i64) } else { json!(number) }
            }
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => json!(d.u64().expect("a number")),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => json!(d.i64().expect("a number")),
            _ => {
                let start = d.position();
                d.skip().expect("CBOR");
                json!(minicbor::display(&d.input()[start..d.position()]).to_string())
            }
        }
    }
    take(&mut Decoder::new(value.as_bytes()))
}

/// What a whole run of a function showed to the world.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Shown {
    pub(crate) calls: Vec<(u32, String, Json)>,
    pub(crate) emits: Vec<Json>,
    pub(crate) logs: Vec<String>,
    pub(crate) end: Option<Result<Json, Exception>>,
    /// The continuation at each move.
    pub(crate) continuations: Vec<Vec<u8>>,
}

/// What the world answers: `echo` its parameters, `fail` an exception, `inc` one more, `rows` a list of that many rows.
pub(crate) fn answer(call: &GuestCall) -> Result<Value, Exception> {
    let params = json_of(&call.params);
    let number = params.as_i64().unwrap_or(0);
    match call.function.as_str() {
        "echo" => Ok(call.params.clone()),
        "inc" => Ok(value(&json!(number + 1))),
        "rows" => {
            let rows = (0..number).map(|row| json!({ "id": row, "name": format!("row {row}") }));
            Ok(value(&rows.collect()))
        }
        "fail" => {
            let mut failure = Exception::new("NoSuchMail", Fault::Service, "there is no such mail");
            failure.path = vec!["mtv".to_owned(), "cam".to_owned()];
            failure.step = 2;
            failure.target = Some(format!("{}/fail", call.service));
            Err(failure.with_params(call.params.clone()))
        }
        other => panic!("the test world has no function {other}"),
    }
}

/// How a function is brought from one await to the next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Way {
    /// It stays where it is.
    InPlace,
    /// It is suspended, and resumed in the other sandbox, at every await.
    Moving,
    /// As `Moving`, and nothing is kept warm, so that each node begins with a fresh instance.
    Cold,
}

/// Runs a function to its end.
pub(crate) async fn run(
    nodes: [&Sandbox; 2],
    images: [&Arc<Image>; 2],
    input: &Json,
    way: Way,
) -> Result<Shown, Exception> {
    let mut shown = Shown::default();
    let mut waiting = VecDeque::new();
    let mut at = 0;
    let mut session = nodes[at].begin(images[at]).await?;
    let turn = session.start(&value(input), START).await?;
    shown.take(turn, &mut waiting);
    while shown.end.is_none() {
        let call: GuestCall = waiting.pop_front().expect("the function stalled");
        if way != Way::InPlace {
            let continuation = session.suspend().await?;
            drop(session);
            at = 1 - at;
            session = nodes[at].resume(images[at], &continuation).await?;
            shown.continuations.push(continuation.to_vec());
        }
        let turn = settle(&mut session, &call).await?;
        shown.take(turn, &mut waiting);
    }
    Ok(shown)
}

pub(crate) async fn settle(session: &mut Session, call: &GuestCall) -> Result<Turn, Exception> {
    match answer(call) {
        Ok(value) => session.settle(call.call, Ok(&value)).await,
        Err(exception) => session.settle(call.call, Err(&exception)).await,
    }
}

impl Shown {
    fn take(&mut self, turn: Turn, waiting: &mut VecDeque<GuestCall>) {
        for call in turn.calls {
            let target = format!("{}/{}", call.service, call.function);
            self.calls.push((call.call, target, json_of(&call.params)));
            waiting.push_back(call);
        }
        self.emits.extend(turn.emits.iter().map(json_of));
        self.logs.extend(turn.logs);
        self.end = turn.end.map(|end| end.map(|value| json_of(&value)));
    }
}
