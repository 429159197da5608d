//! The node's file as it is written in TOML, before it is checked.

use std::{fmt, path::PathBuf};

use catena::{MEMORY_BYTES_MIN, Place};
use catena_oci::OciRegistry;
use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

use super::{
    bounds::{LimitsTable, PolicyTable, StepStoreTable},
    mistake::wrong,
    names::NamesTable,
    rdma::RdmaTable,
    segments::SegmentTable,
    service::ServiceTable,
};
use crate::connect;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    pub(super) site: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "some_address")]
    pub(super) listen: Option<String>,
    #[serde(default, deserialize_with = "some_address")]
    pub(super) advertise: Option<String>,
    #[serde(default)]
    pub(super) join: Vec<Join>,
    #[serde(default)]
    pub(super) repository: bool,
    pub(super) shaped: Option<Spanned<Shaped>>,
    pub(super) runs_guests: Option<Spanned<bool>>,
    #[serde(default, deserialize_with = "some_address")]
    pub(super) chaining_proxy: Option<String>,
    pub(super) hosts_chains_for_others: Option<Spanned<bool>>,
    pub(super) cache_dir: Option<Spanned<PathBuf>>,
    #[serde(default, deserialize_with = "some_memory")]
    pub(super) memory_bytes_max: Option<u64>,
    pub(super) blob_bytes_max: Option<u64>,
    pub(super) blob_grace_ms: Option<u64>,
    pub(super) untold_dials_max: Option<usize>,
    pub(super) step_store: Option<StepStoreTable>,
    pub(super) function_store: Option<Spanned<PathBuf>>,
    #[serde(default, deserialize_with = "some_registry")]
    pub(super) registry: Option<OciRegistry>,
    #[serde(default)]
    pub(super) names: NamesTable,
    #[serde(default)]
    pub(super) service: Vec<ServiceTable>,
    #[serde(default)]
    pub(super) segment: Vec<SegmentTable>,
    pub(super) rdma: Option<RdmaTable>,
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) policy: PolicyTable,
}

/// How links are shaped.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shaped {
    /// As between the four sites of the RPC Chains paper.
    Paper,
}

/// `"host:port"`, or `{ address = "host:port", site = "mtv" }`.
pub(super) struct Join(pub(super) Place);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinTable {
    #[serde(deserialize_with = "address")]
    address: String,
    site: Option<String>,
}

/// Deserialized by hand: an untagged enum would lose the line of a mistake.
impl<'de> Deserialize<'de> for Join {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JoinVisitor)
    }
}

struct JoinVisitor;

impl<'de> Visitor<'de> for JoinVisitor {
    type Value = Join;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"host:port\", or { address = \"host:port\", site = \"...\" }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Join, E> {
        address(text.into_deserializer()).map(|address| Join(Place { address, site: None }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Join, A::Error> {
        let JoinTable { address, site } = JoinTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Join(Place { address, site }))
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    connect::address(&text).map_err(|help| wrong(&format!("{text:?} is no address"), &help))
}

fn some_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    address(deserializer).map(Some)
}

fn some_memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    if bytes >= MEMORY_BYTES_MIN {
        return Ok(Some(bytes));
    }
    let message = format!("memory_bytes_max is {bytes}: a node needs at least {MEMORY_BYTES_MIN}");
    Err(wrong(&message, "make it larger, or leave it out: then it is 1 GiB"))
}

fn some_registry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OciRegistry>, D::Error> {
    let opened = OciRegistry::open(&String::deserialize(deserializer)?);
    opened.map(Some).map_err(|why| wrong(&why.0, "without it functions are kept by nodes alone"))
}
