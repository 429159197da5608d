//! What a registry stores for a function: a manifest with one layer. Nothing in it is trusted: whoever can write to the registry can write anything.

use serde_json::{Value, json};

/// The media type of a manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a function's layer, for people who look into the registry.
const LAYER: &str = "application/vnd.catena.function.v1";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// A blob: its digest, and how many bytes it has.
pub(crate) type Blob<'a> = (&'a str, usize);

/// A manifest, by its bytes.
pub(crate) fn parsed(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// The manifest of a function.
pub(crate) fn of_function((config, config_bytes): Blob<'_>, (layer, layer_bytes): Blob<'_>) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": LAYER,
        "config": { "mediaType": EMPTY, "digest": config, "size": config_bytes },
        "layers": [{ "mediaType": LAYER, "digest": layer, "size": layer_bytes }],
    })
}

/// The digest of the function's layer. `None`: not a function's manifest. The digest becomes part of a URL, so its form is checked.
pub(crate) fn layer_of(manifest: &Value) -> Option<&str> {
    let is_digest = |text: &str| {
        let hex = text.strip_prefix("sha256:");
        hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    manifest["layers"][0]["digest"].as_str().filter(|digest| is_digest(digest))
}
