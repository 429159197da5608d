//! A continuation from a peer, laid over an image: refused with the reason and nothing written, or laid whole.
//!
//! Apart from its target, since what it needs brings wasmtime: `guest/tests/fuzzed.rs` compiles it with the workspace's own.

use catena_guest::{
    Scratch,
    continuation::{Shape, WASM_PAGE_BYTES, apply},
    decode_explicit,
};

pub fn lay(bytes: &[u8]) {
    let digest = [1, 2, 3, 4, 5, 6, 7, 8];
    let _ = decode_explicit(digest, bytes);
    let scratch = Scratch::new(vec![100..200, 70_000..80_000]).expect("ranges in order");
    let shape = Shape { digest, memory_pages: 1, memory_pages_max: 2, globals_wide: &[false, true], scratch: &scratch };
    let mut memory = vec![0x55; 2 * WASM_PAGE_BYTES as usize];
    // Most inputs would fail at the digest: also try with the right beginning.
    let with_digest = [&[1], &digest[..], bytes].concat();
    for continuation in [bytes, &with_digest] {
        let before = memory.clone();
        let laid = apply(&shape, continuation, &mut memory);
        assert!(laid.is_ok() || memory == before, "a refused continuation has written");
        assert_eq!(memory[100..200], before[100..200], "scratch is never touched");
    }
}
