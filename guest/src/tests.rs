//! Tests of what is visible only from inside: the memory of an instance, byte by byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::Path, sync::Arc, sync::LazyLock};

use catena_wire::Value;
use proptest::prelude::*;

use crate::{
    FunctionKind, Image, Owner, PageFinder, Sandbox, SandboxConfig, Start,
    continuation::{Checked, apply},
    ready::Ready,
};

pub(crate) fn sandbox(page_finder: Option<PageFinder>) -> Sandbox {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    Sandbox::new(SandboxConfig {
        cache_dir: Some(target.join("wasmtime-cache")),
        page_finder,
        ..SandboxConfig::default()
    })
    .expect("this machine has every means of finding pages")
}

/// One sandbox for each way of finding changed pages.
static FINDERS: LazyLock<[Sandbox; 3]> = LazyLock::new(|| {
    [PageFinder::PagemapScan, PageFinder::PagemapRead, PageFinder::Everything].map(|finder| sandbox(Some(finder)))
});

/// Eight pages of 64 KiB with data here and there, two mutable globals, and scratch that begins and ends within pages.
const MODULE: &str = r#"(module
  (memory (export "memory") 8)
  (data (i32.const 0x100) "\00\30\00\00\00\10\00\00\10\90\00\00\07\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x2ff0) "data before, inside and after the first range of scratch")
  (data (i32.const 0x3fe0) "data across the end of a page, and of the first range of scratch")
  (data (i32.const 0x20000) "more data")
  (global $a (mut i32) (i32.const 7)) (global $b (mut f64) (f64.const 1.5)) (global i32 (i32.const 9))
  (func (export "catena_abi_v1"))
  (func (export "catena_scratch") (result i32) i32.const 0x100)
  (func (export "catena_alloc") (param i32) (result i32) i32.const 0x50000)
  (func (export "catena_start") (param i32 i32) (result i64) (global.set $a (i32.const 1)) i64.const 0)
  (func (export "catena_resume") (param i32 i32) (result i64) (global.set $b (f64.const 2)) i64.const 0))"#;

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn load(sandbox: &Sandbox, kind: FunctionKind, code: &[u8]) -> Arc<Image> {
    let function = sandbox.function(kind, "test", code.to_vec());
    wait(sandbox.load(function.hash(), &function.encode())).unwrap()
}

fn fresh(sandbox: &Sandbox, image: &Arc<Image>) -> Ready {
    let inner = sandbox.inner();
    Ready::new(&inner.runtime, image, crate::seats::Seats::new(1, u64::MAX).take().unwrap(), None).unwrap()
}

/// The complete state of an instance.
fn state(ready: &mut Ready) -> (Vec<u8>, Vec<u64>) {
    let instance = ready.instance();
    (instance.memory().to_vec(), instance.globals().collect())
}

fn assert_same(a: &(Vec<u8>, Vec<u64>), b: &(Vec<u8>, Vec<u64>), what: &str) {
    let differing = a.0.iter().zip(&b.0).position(|(a, b)| a != b);
    assert_eq!(differing, None, "{what}: memory differs there");
    assert_eq!((a.0.len(), &a.1), (b.0.len(), &b.1), "{what}");
}

#[derive(Clone, Debug)]
struct Write {
    at: usize,
    bytes: Vec<u8>,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    // Some near the module's data and scratch, the rest anywhere.
    let at = prop_oneof![0x2f00_usize..0x4100, 0x8ff0_usize..0x9030, 0_usize..8 << 16];
    let bytes =
        prop_oneof![proptest::collection::vec(any::<u8>(), 1..40), proptest::collection::vec(Just(0_u8), 1..9_000),];
    proptest::collection::vec((at, bytes).prop_map(|(at, bytes)| Write { at, bytes }), 0..24)
}

fn write(memory: &mut [u8], writes: &[Write]) {
    for write in writes {
        let end = (write.at + write.bytes.len()).min(memory.len());
        memory[write.at..end].copy_from_slice(&write.bytes[..end - write.at]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_means_of_finding_pages_give_one_continuation_and_a_whole_reset(rounds in proptest::collection::vec(writes(), 1..4)) {
        let module = wat::parse_str(MODULE).unwrap();
        let mut seen: Vec<Vec<Vec<u8>>> = Vec::new();
        for sandbox in &*FINDERS {
            let image = load(sandbox, FunctionKind::Wasm, &module);
            let untouched = state(&mut fresh(sandbox, &image));
            let runtime = &sandbox.inner().runtime;
            // The same instance is used again and again, as a warm one is.
            let mut ready = fresh(sandbox, &image);
            let mut continuations = Vec::new();
            for writes in &rounds {
                write(ready.instance().memory_mut(), writes);
                ready.instance().set_globals([5, 6].into_iter()).unwrap();
                let written = state(&mut ready);
                let continuation = wait(ready.continuation(runtime, &runtime.limits)).unwrap();
                prop_assert!(ready.reset_compared());
                assert_same(&state(&mut ready), &untouched, "reset");

                let shape = image.shape(100);
                let checked = Checked::new(&shape, &continuation).unwrap();
                let mut elsewhere = fresh(sandbox, &image);
                elsewhere.lay(&checked).unwrap();
                let mut expected = written;
                for range in shape.scratch.ranges() {
                    let range = range.start as usize..range.end as usize;
                    expected.0[range.clone()].copy_from_slice(&untouched.0[range]);
                }
                assert_same(&state(&mut elsewhere), &expected, "laid over a fresh instance");
                continuations.push(continuation.to_vec());
            }
            seen.push(continuations);
        }
        prop_assert_eq!(&seen[0], &seen[1]);
        prop_assert_eq!(&seen[0], &seen[2]);
    }

    #[test]
    fn no_bytes_harm_what_they_are_laid_over(
        writes in writes(),
        cut in any::<prop::sample::Index>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        garbage in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let sandbox = &FINDERS[0];
        let image = load(sandbox, FunctionKind::Wasm, &wat::parse_str(MODULE).unwrap());
        let runtime = &sandbox.inner().runtime;
        let mut ready = fresh(sandbox, &image);
        let untouched = ready.instance().memory().to_vec();
        write(ready.instance().memory_mut(), &writes);
        let whole = wait(ready.continuation(runtime, &runtime.limits)).unwrap();
        let shape = image.shape(16);
        let mut memory = untouched.clone();

        prop_assert!(apply(&shape, &whole[..cut.index(whole.len())], &mut memory).is_err());
        prop_assert_eq!(&memory, &untouched, "cut short, and written nevertheless");

        let mut flipped = whole.to_vec();
        for (at, bits) in &flips {
            let at = at.index(flipped.len());
            flipped[at] ^= bits;
        }
        for bytes in [&flipped, &[&whole[..], &garbage].concat(), &garbage] {
            let mut memory = untouched.clone();
            match apply(&shape, bytes, &mut memory) {
                Err(_) => prop_assert_eq!(&memory, &untouched, "refused, and written nevertheless"),
                // A changed payload cannot be distinguished from another valid state, but it stays outside scratch.
                Ok(()) => for range in shape.scratch.ranges() {
                    let range = range.start as usize..range.end as usize;
                    prop_assert_eq!(&memory[range.clone()], &untouched[range]);
                },
            }
        }
        prop_assert!(apply(&shape, &whole, &mut memory).is_ok());
    }
}

#[test]
fn a_page_that_was_never_touched_is_not_looked_at() {
    let module = wat::parse_str(MODULE).unwrap();
    for (sandbox, most) in FINDERS.iter().zip([1, 1, 128]) {
        let image = load(sandbox, FunctionKind::Wasm, &module);
        let mut ready = fresh(sandbox, &image);
        ready.instance().memory_mut()[0x40000] = 1;
        let mut pages = Vec::new();
        ready.instance().find(&sandbox.inner().runtime.pages, &mut pages);
        assert!(pages.contains(&0x40) && pages.len() <= most, "{:?}: {pages:?}", sandbox.stats().page_finder);
        // Its first write comes after the other pages were found.
        ready.instance().memory_mut()[0x50000] = 1;
        ready.instance().find(&sandbox.inner().runtime.pages, &mut pages);
        assert!(pages.contains(&0x50) && pages.len() <= most + 1, "{:?}: {pages:?}", sandbox.stats().page_finder);
    }
}

/// Functions that keep secrets in every way they can, and end in every way; some are still running when the session is dropped.
const KEEPERS: [&str; 6] = [
    "export default async (secret) => { globalThis.kept = secret; return secret; };",
    "let kept = []; export default async (secret) => { for (let i = 0; i < 50; i++) kept.push(secret + i); throw new Error(secret); };",
    "import { call } from 'catena'; export default async (secret) => { const kept = new Map([[secret, new Uint8Array(5000).fill(secret.length)]]); await call('a/b', secret); return kept.size; };",
    "import { call, log, emit } from 'catena'; export default async (secret) => { log(secret); emit(secret); Array.prototype.leak = secret; await call('a/b', secret.repeat(300)); };",
    "import { call } from 'catena'; export default async (secret) => { const all = [1, 2, 3].map((n) => call('a/b', secret + n)); await Promise.all(all); };",
    "export default async (secret) => { Object.defineProperty(Object.prototype, 'x', { get: () => secret }); const down = (n) => n && down(n - 1) + secret; try { down(1e9); } catch {} return new RegExp(secret).source; };",
];

#[test]
fn nothing_of_one_chain_is_left_for_the_next() {
    let sandbox = sandbox(None);
    for (which, source) in KEEPERS.iter().enumerate() {
        let image = load(&sandbox, FunctionKind::JavaScript, source.as_bytes());
        let untouched = state(&mut fresh(&sandbox, &image));
        for round in 0..6 {
            let secret = Value::encode(&format!("the secret of chain {which} in round {round}"));
            wait(async {
                let mut session = sandbox.begin(&image).await.unwrap();
                let start = Start { started_at_ms: round, seed: 99 + round };
                let turn = session.start(&secret, start).await.unwrap();
                if turn.end.is_none() && round % 3 > 0 {
                    let continuation = session.suspend().await.unwrap();
                    drop(session);
                    let mut session = sandbox.resume(&image, &continuation).await.unwrap();
                    if round % 3 > 1 {
                        session.settle(0, Ok(&secret)).await.unwrap();
                    }
                }
            });
            assert_eq!(sandbox.stats().warm_instances, 1, "it was put back");
            // It is dropped then: pages that were read count as written, if the next one to use it is interrupted.
            let mut ready = sandbox.inner().ready(&image, Owner::Own).unwrap();
            assert_same(&state(&mut ready), &untouched, &format!("{source} in round {round}"));
        }
    }
    assert!(sandbox.stats().warm_hits > 20, "{:?}", sandbox.stats());
}

#[test]
fn an_instance_whose_memory_grew_is_not_used_again() {
    let sandbox = sandbox(None);
    let source = b"import { call } from 'catena'; export default async () => { const kept = new Uint8Array(4e6).fill(1); await call('a/b', 1); return kept.length; };";
    let image = load(&sandbox, FunctionKind::JavaScript, source);
    wait(async {
        let mut session = sandbox.begin(&image).await.unwrap();
        session.start(&Value::null(), Start { started_at_ms: 0, seed: 0 }).await.unwrap();
        let continuation = session.suspend().await.unwrap();
        drop(session);
        assert_eq!(sandbox.stats().warm_instances, 0);
        let mut session = sandbox.resume(&image, &continuation).await.unwrap();
        let turn = session.settle(0, Ok(&Value::null())).await.unwrap();
        assert_eq!(turn.end, Some(Ok(Value::encode(&4_000_000_u32))));
        drop(session);
        assert_eq!(sandbox.stats().instances, 0);
    });
}

#[test]
fn a_continuation_of_another_image_is_refused() {
    let sandbox = sandbox(None);
    let of = |text: &str| {
        load(
            &sandbox,
            FunctionKind::JavaScript,
            format!("import {{ call }} from 'catena'; export default async () => call('a/b', '{text}');").as_bytes(),
        )
    };
    let (image, other) = (of("one"), of("two"));
    wait(async {
        let mut session = sandbox.begin(&image).await.unwrap();
        session.start(&Value::null(), Start { started_at_ms: 0, seed: 0 }).await.unwrap();
        let continuation = session.suspend().await.unwrap();
        for (image, bytes, says) in [
            (&other, &continuation[..], "another image"),
            (&image, &continuation[..20], "cut short"),
            (&image, &[], "cut short"),
            (&image, &[&[2], &continuation[1..]].concat(), "version is 2"),
            (&image, &[&continuation[..], &[0]].concat(), "bytes follow"),
        ] {
            let exception = sandbox.resume(image, bytes).await.unwrap_err();
            assert_eq!(exception.name, catena_wire::names::BAD_CONTINUATION);
            assert!(exception.message.contains(says), "{exception}");
        }
        sandbox.resume(&image, &continuation).await.unwrap();
    });
}

#[test]
fn an_instance_of_one_function_becomes_one_of_another() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let sandbox = Sandbox::new(SandboxConfig {
        cache_dir: Some(target.join("wasmtime-cache")),
        warm_instances_max: 1,
        ..SandboxConfig::default()
    })
    .unwrap();
    let images: Vec<_> =
        KEEPERS.iter().map(|source| load(&sandbox, FunctionKind::JavaScript, source.as_bytes())).collect();
    let secret = Value::encode(&"a secret");
    let run = |image: &Arc<Image>| {
        wait(async {
            let mut session = sandbox.begin(image).await.unwrap();
            session.start(&secret, Start { started_at_ms: 0, seed: 0 }).await.unwrap();
        });
    };
    for image in images.iter().cycle().take(20) {
        run(image);
    }
    // To read a page counts as writing it, so these are not kept after they have run again.
    for image in &images {
        let mut ready = sandbox.inner().ready(image, Owner::Own).unwrap();
        assert_same(&state(&mut ready), &state(&mut fresh(&sandbox, image)), image.name());
        sandbox.inner().keep(ready);
    }
    assert!(sandbox.stats().warm_converted >= 18, "{:?}", sandbox.stats());
}
