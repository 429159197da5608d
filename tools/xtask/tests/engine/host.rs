//! A host for the engine, as small as can be: plain wasmtime, no pooling, no difference.

use std::sync::OnceLock;

use minicbor::{Decoder, Encoder};
use wasmtime::{Engine, Instance, Linker, Memory, Module, ResourceLimiter, Store, Val};

pub const STARTED_AT_MS: u64 = 1_700_000_000_123;
pub const SEED: u64 = 0x0123_4567_89ab_cdef;
const OUTPUT_BYTES_MAX: u32 = 1 << 20;

/// The engine that `xtask guests` has built, with its globals exported.
fn module() -> &'static (Engine, Module) {
    static MODULE: OnceLock<(Engine, Module)> = OnceLock::new();
    MODULE.get_or_init(|| {
        let target = std::env::var("CARGO_TARGET_DIR")
            .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../target").into());
        let path = format!("{target}/guests/engine.wasm");
        let wasm = std::fs::read(&path)
            .unwrap_or_else(|e| panic!("{path}: {e}; run `cargo run --release -p xtask -- guests` first"));
        let (_, wasm) = wasmtime_wizer::Wizer::new().instrument(&wasm).unwrap();
        let mut config = wasmtime::Config::new();
        // Some of the engine's recursions need 16 times as much of the host's stack as of the guest's.
        config.max_wasm_stack(8 << 20).async_stack_size(16 << 20);
        let engine = Engine::new(&config).unwrap();
        let module = Module::new(&engine, wasm).unwrap();
        (engine, module)
    })
}

/// What the host decides for one instance.
pub struct Rules {
    pub memory_bytes_max: usize,
    /// Once memory was refused, this much is granted after all.
    pub reserve_bytes: usize,
    /// After how many polls a step is too long.
    pub polls_max: u32,
    pub polls: u32,
    pub refused: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { memory_bytes_max: 64 << 20, reserve_bytes: 256 << 10, polls_max: u32::MAX, polls: 0, refused: false }
    }
}

impl ResourceLimiter for Rules {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let reserve = if self.refused { self.reserve_bytes } else { 0 };
        let fits = desired <= self.memory_bytes_max + reserve;
        self.refused |= !fits;
        Ok(fits)
    }
    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(true)
    }
}

/// An instance of the engine.
pub struct Guest {
    store: Store<Rules>,
    instance: Instance,
    memory: Memory,
    pub output_bytes_max: u32,
}

/// One event, in CBOR's diagnostic notation; and what a test must know of it.
#[derive(Debug, Clone)]
pub struct Event {
    pub text: String,
    pub kind: u8,
    bytes: Vec<u8>,
}

/// A call that a program made.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "some are only shown when a test fails")]
pub struct Call {
    pub number: u32,
    pub target: String,
    pub params: Vec<u8>,
    pub line: u32,
    pub column: u32,
}

impl Event {
    pub fn call(&self) -> Option<Call> {
        if self.kind != 0 {
            return None;
        }
        let mut d = Decoder::new(&self.bytes);
        assert_eq!(d.array().unwrap(), Some(7));
        d.u8().unwrap();
        let number = d.u32().unwrap();
        let target = format!("{}/{}", d.str().unwrap(), d.str().unwrap());
        let start = d.position();
        d.skip().unwrap();
        let params = self.bytes[start..d.position()].to_vec();
        Some(Call { number, target, params, line: d.u32().unwrap(), column: d.u32().unwrap() })
    }
}

impl Guest {
    pub fn new(rules: Rules) -> Guest {
        let (engine, module) = module();
        let mut store = Store::new(engine, rules);
        store.limiter(|rules| rules);
        let mut linker: Linker<Rules> = Linker::new(engine);
        linker
            .func_wrap("catena", "interrupted", |mut caller: wasmtime::Caller<'_, Rules>| {
                let rules = caller.data_mut();
                rules.polls += 1;
                i32::from(rules.polls > rules.polls_max)
            })
            .unwrap();
        let instance = linker.instantiate(&mut store, module).unwrap();
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        Guest { store, instance, memory, output_bytes_max: OUTPUT_BYTES_MAX }
    }

    /// A guest that holds this function.
    pub fn with(source: &str) -> Guest {
        let mut guest = Guest::new(Rules::default());
        let events = guest.load("test.js", source);
        assert_eq!(events[0].text, "[7]", "{source}\n{events:?}");
        guest
    }

    fn event(&mut self, export: &str, event: &[u8]) -> Vec<Event> {
        let outbox = self.quick(export, event);
        let settle = self.instance.get_typed_func::<(), ()>(&mut self.store, "catena_settle").unwrap();
        settle.call(&mut self.store, ()).unwrap();
        events(&outbox)
    }

    /// Hands an event in; the outbox as it is.
    pub fn quick(&mut self, export: &str, event: &[u8]) -> Vec<u8> {
        let alloc = self.instance.get_typed_func::<u32, u32>(&mut self.store, "catena_alloc").unwrap();
        let at = alloc.call(&mut self.store, event.len() as u32).unwrap();
        assert_ne!(at, 0, "no room for the event");
        self.memory.write(&mut self.store, at as usize, event).unwrap();
        self.store.data_mut().polls = 0;
        let function = self.instance.get_typed_func::<(u32, u32), u64>(&mut self.store, export).unwrap();
        let answer = function.call(&mut self.store, (at, event.len() as u32)).unwrap();
        let (start, len) = ((answer >> 32) as usize, answer as u32 as usize);
        self.memory.data(&self.store)[start..start + len].to_vec()
    }

    pub fn load(&mut self, name: &str, source: &str) -> Vec<Event> {
        let mut e = Encoder::new(Vec::new());
        e.array(2).unwrap().str(name).unwrap().str(source).unwrap();
        self.event("catena_load", &e.into_writer())
    }

    pub fn start(&mut self, input: &[u8]) -> Vec<Event> {
        let event = start_event(input, self.output_bytes_max);
        self.event("catena_start", &event)
    }

    pub fn resume(&mut self, call: u32, ok: bool, value: &[u8]) -> Vec<Event> {
        let event = resume_event(call, ok, value, self.output_bytes_max);
        self.event("catena_resume", &event)
    }

    /// The memory as the next node would see it: without what the guest calls scratch.
    pub fn memory(&mut self) -> Vec<u8> {
        let mut bytes = self.memory.data(&self.store).to_vec();
        for (start, len) in self.scratch() {
            bytes[start..start + len].fill(0);
        }
        bytes
    }

    pub fn scratch(&mut self) -> Vec<(usize, usize)> {
        let function = self.instance.get_typed_func::<(), u32>(&mut self.store, "catena_scratch").unwrap();
        let mut at = function.call(&mut self.store, ()).unwrap() as usize;
        let bytes = self.memory.data(&self.store);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let mut ranges = Vec::new();
        while word(at) != 0 {
            ranges.push((word(at), word(at + 4)));
            at += 8;
        }
        ranges
    }

    fn globals(&mut self) -> Vec<(String, wasmtime::Global)> {
        let names: Vec<String> = self.instance.exports(&mut self.store).map(|e| e.name().to_owned()).collect();
        let globals = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.instance.get_global(&mut self.store, &name)?)));
        let found: Vec<_> = globals.collect();
        found.into_iter().filter(|(_, g)| g.ty(&self.store).mutability() == wasmtime::Mutability::Var).collect()
    }

    /// Goes on elsewhere: a new instance, in a new store, with this one's memory and globals and nothing else.
    /// What is scratch holds rubbish there, to show that nobody reads it.
    pub fn moved(mut self) -> Guest {
        let mut bytes = self.memory();
        for (start, len) in self.scratch() {
            bytes[start..start + len].fill(0xa5);
        }
        let values: Vec<(String, Val)> =
            self.globals().into_iter().map(|(name, global)| (name, global.get(&mut self.store))).collect();
        assert!(!values.is_empty());
        let mut there = Guest::new(Rules::default());
        there.output_bytes_max = self.output_bytes_max;
        let missing = bytes.len() - there.memory.data_size(&there.store);
        there.memory.grow(&mut there.store, missing as u64 / 65536).unwrap();
        there.memory.write(&mut there.store, 0, &bytes).unwrap();
        for (name, value) in values {
            let global = there.instance.get_global(&mut there.store, &name).unwrap();
            global.set(&mut there.store, value).unwrap();
        }
        there
    }
}

pub fn start_event(input: &[u8], output_bytes_max: u32) -> Vec<u8> {
    let mut event = vec![0x84];
    event.extend_from_slice(input);
    let mut e = Encoder::new(event);
    e.u64(STARTED_AT_MS).unwrap().u64(SEED).unwrap().u32(output_bytes_max).unwrap();
    e.into_writer()
}

pub fn resume_event(call: u32, ok: bool, value: &[u8], output_bytes_max: u32) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    e.array(4).unwrap().u32(call).unwrap().bool(ok).unwrap();
    let mut event = e.into_writer();
    event.extend_from_slice(value);
    let mut e = Encoder::new(event);
    e.u32(output_bytes_max).unwrap();
    e.into_writer()
}

fn events(outbox: &[u8]) -> Vec<Event> {
    let mut d = Decoder::new(outbox);
    let count = d.array().unwrap().unwrap();
    let events = (0..count)
        .map(|_| {
            let start = d.position();
            d.skip().unwrap();
            let bytes = outbox[start..d.position()].to_vec();
            let mut head = Decoder::new(&bytes);
            head.array().unwrap();
            let (text, kind) = (minicbor::display(&bytes).to_string(), head.u8().unwrap());
            Event { text, kind, bytes }
        })
        .collect();
    assert_eq!(d.position(), outbox.len(), "bytes after the last event");
    events
}

/// JSON text to CBOR.
pub fn cbor(json: &str) -> Vec<u8> {
    fn write(value: &serde_json::Value, e: &mut Encoder<Vec<u8>>) {
        use serde_json::Value::*;
        match value {
            Null => e.null().map(|_| ()),
            Bool(b) => e.bool(*b).map(|_| ()),
            Number(n) if n.is_u64() => e.u64(n.as_u64().unwrap()).map(|_| ()),
            Number(n) if n.is_i64() => e.i64(n.as_i64().unwrap()).map(|_| ()),
            Number(n) => e.f64(n.as_f64().unwrap()).map(|_| ()),
            String(s) => e.str(s).map(|_| ()),
            Array(items) => {
                e.array(items.len() as u64).unwrap();
                items.iter().for_each(|item| write(item, e));
                Ok(())
            }
            Object(fields) => {
                e.map(fields.len() as u64).unwrap();
                for (key, value) in fields {
                    e.str(key).unwrap();
                    write(value, e);
                }
                Ok(())
            }
        }
        .unwrap();
    }
    let mut e = Encoder::new(Vec::new());
    write(&serde_json::from_str(json).unwrap(), &mut e);
    e.into_writer()
}

/// The services of the tests: `t/echo` answers its params, `t/fail` fails with them as the exception.
pub fn serve(call: &Call) -> (bool, Vec<u8>) {
    match call.target.as_str() {
        "t/echo" => (true, call.params.clone()),
        "t/fail" => (false, call.params.clone()),
        other => panic!("no such service: {other}"),
    }
}

/// Runs a program to its end, serving its calls one at a time; every event but the calls, in one text.
/// With `moves`, it goes on elsewhere before every turn.
pub fn run(source: &str, input: &str, moves: bool) -> String {
    let mut guest = Guest::with(source);
    if moves {
        guest = guest.moved();
    }
    let mut told = Vec::new();
    let mut open = std::collections::VecDeque::new();
    let mut events = guest.start(&cbor(input));
    loop {
        for event in events {
            match event.call() {
                Some(call) => open.push_back(call),
                None => told.push(event.text),
            }
        }
        let Some(call) = open.pop_front() else { break };
        if told.last().is_some_and(|t| t.starts_with("[1,") || t.starts_with("[2,") || t.starts_with("[5,")) {
            break;
        }
        if moves {
            guest = guest.moved();
        }
        let (ok, answer) = serve(&call);
        events = guest.resume(call.number, ok, &answer);
    }
    told.join(" ")
}
