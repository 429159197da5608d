//! Whoever can write to an OCI registry can write any manifest: what is taken from it goes into an address, so it is a
//! digest or nothing.
#![no_main]
#![allow(dead_code, reason = "of the crate's own module a part is used; the crate itself brings an HTTP client")]

#[path = "../../../directory/oci/src/manifest.rs"]
mod manifest;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

#[derive(Arbitrary, Debug)]
enum Manifest {
    Bytes(Vec<u8>),
    Layers(Vec<Layer>),
    Digest(String),
    Function([u8; 32], usize),
}

#[derive(Arbitrary, Debug)]
enum Layer {
    Text(String),
    Number(i64),
    Digest(Digest),
    Nested(Vec<Layer>),
}

/// Nearly one.
#[derive(Arbitrary, Debug)]
struct Digest {
    prefix: bool,
    hex: Vec<u8>,
    rest: String,
}

fn as_json(layer: &Layer) -> Value {
    match layer {
        Layer::Text(text) => json!(text),
        Layer::Number(number) => json!(number),
        Layer::Digest(Digest { prefix, hex, rest }) => {
            let hex: String = hex.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "digest": format!("{}{hex}{rest}", if *prefix { "sha256:" } else { "" }) })
        }
        Layer::Nested(layers) => json!({ "layers": layers.iter().map(as_json).collect::<Vec<_>>() }),
    }
}

fn check(manifest: &Value) {
    let Some(digest) = manifest::layer_of(manifest) else { return };
    let (kind, hex) = digest.split_at("sha256:".len());
    assert!(kind == "sha256:" && hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
}

fuzz_target!(|input: Manifest| {
    match input {
        Manifest::Bytes(bytes) => {
            if let Ok(manifest) = manifest::parsed(&bytes) {
                check(&manifest);
            }
        }
        Manifest::Layers(layers) => check(&json!({ "layers": layers.iter().map(as_json).collect::<Vec<_>>() })),
        Manifest::Digest(digest) => check(&json!({ "layers": [{ "digest": digest }] })),
        Manifest::Function(hash, bytes) => {
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let digest = format!("sha256:{hex}");
            let said = manifest::of_function((&digest, 2), (&digest, bytes)).to_string();
            let manifest = manifest::parsed(said.as_bytes()).expect("what was said is understood");
            assert_eq!(manifest::layer_of(&manifest), Some(digest.as_str()));
        }
    }
});
